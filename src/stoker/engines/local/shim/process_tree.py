"""The processes of a pod. Orphans become children of the shim, so a shim without children has no processes left."""

import os


class PidNamespaceTree:
    """All other processes of the PID namespace."""

    def send_signal(self, number: int) -> None:
        try:
            os.kill(-1, number)
        except ProcessLookupError:
            return


class DescendantTree:
    """All descendants of the shim, found in /proc. The shim is a subreaper, so orphans become its children."""

    def send_signal(self, number: int) -> None:
        for pid in descendants(read_parents(), os.getpid()):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue


def read_parents() -> dict[int, int]:
    """The parent of every visible process."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib is too large for a shim
        if name.isdigit():
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                stat = os.read(fd, 4096)
                os.close(fd)
            except OSError:
                continue
            # the name in parentheses may contain anything, also a parenthesis
            found[int(name)] = int(stat[stat.rindex(b")") + 2 :].split(b" ", 2)[1])
    return found


def descendants(parents: dict[int, int], root: int) -> list[int]:
    """All descendants, level by level."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    level = [root]
    while level:
        level = [child for pid in level for child in children.get(pid, [])]
        found += level
    return found


def reap_children() -> tuple[list[tuple[int, int]], bool]:
    """The pids and statuses of ended children, and whether any are left."""
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status))


def decode_status(status: int) -> tuple[int, int]:
    """The exit code and the signal of a status; for a signal the code is 128 + signal, as in a shell."""
    code = os.waitstatus_to_exitcode(status)
    return (code, 0) if code >= 0 else (128 - code, -code)
