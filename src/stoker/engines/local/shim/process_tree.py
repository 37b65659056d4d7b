"""All the processes of a pod. A keeper without children has none left: whatever loses its parent becomes its child."""

import os


class NamespaceTree:
    """Everyone else in the PID namespace."""

    def signal(self, number: int) -> None:
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return


class DescendantTree:
    """Everyone below the keeper, found by walking /proc; orphans come back to it because it is a subreaper."""

    def signal(self, number: int) -> None:
        for pid in descendants(parents(), os.getpid()):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue


def parents() -> dict[int, int]:
    """The parent of every process that can be seen."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is too large for a shim
        if name.isdigit():
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                stat = os.read(fd, 4096)
                os.close(fd)
            except OSError:
                continue
            # the name in brackets may hold anything, also a bracket
            found[int(name)] = int(stat[stat.rindex(b")") + 2 :].split(b" ", 2)[1])
    return found


def descendants(parents: dict[int, int], root: int) -> list[int]:
    """Children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    level = [root]
    while level:
        level = [child for pid in level for child in children.get(pid, [])]
        found += level
    return found


def reap() -> tuple[list[tuple[int, int]], bool]:
    """Those that have ended with their status, and whether any are left."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status))


def meaning(status: int) -> tuple[int, int]:
    """Exit code and signal of a status; a signal's code is 128 more, as a shell has it."""
    code = os.waitstatus_to_exitcode(status)
    return (code, 0) if code >= 0 else (128 - code, -code)
