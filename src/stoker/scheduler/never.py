"""What can never run, whatever ends before it: judged on whole nodes, busy or not."""


def never_fits(*args: object) -> None:
    return None
