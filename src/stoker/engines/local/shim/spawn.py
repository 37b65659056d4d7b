"""From a keeper to the command it keeps: a fork that joins its limits, gives up its privileges and becomes it."""

import fcntl
import os
import stat

from .kernel import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl
from .order import LaunchOrder
from .signals import SIGKILL, as_usual
from .walls import give_up_privileges

CANNOT_RUN = 126
NOT_FOUND = 127
_TIOCSCTTY = 0x540E
_LONGEST_ARGUMENT = 120_000
_OOM_SCORE = "300"
"""When the machine runs out of memory, jobs go before the server and the keepers."""


def start(
    order: LaunchOrder, argv: list[str], groups: list[int], streams: tuple[int, int], *, tty: bool = False
) -> int:
    """Start a command, or the order's script if none is given, on these for input and output; returns its process."""
    pid = os.fork()
    if pid == 0:
        try:
            _become(order, argv, groups, streams, tty=tty)
        except OSError as error:
            name = (argv or [order.shell])[0]
            os.write(2, f"[stoker] {name} could not be started: {error}\n".encode("utf-8", "replace"))
            os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN)
        finally:
            os._exit(CANNOT_RUN)
    return pid


def _become(order: LaunchOrder, argv: list[str], groups: list[int], streams: tuple[int, int], *, tty: bool) -> None:
    os.setsid()
    if tty:
        fcntl.ioctl(streams[0], _TIOCSCTTY, 0)
    os.dup2(streams[0], 0)
    os.dup2(streams[1], 1)
    os.dup2(streams[1], 2)
    for group in groups:
        os.write(group, b"0")
    _raise_oom_score()
    if order.data_limit:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (order.data_limit, order.data_limit))
    if order.namespaces:
        give_up_privileges()
    else:
        prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.umask(0o022)
    os.chdir(order.folder)
    as_usual()
    if order.user:
        _become_user(order, streams)
    _execute(argv or _script(order), order.env | {"TERM": "xterm-256color"} if tty else order.env)


def _become_user(order: LaunchOrder, streams: tuple[int, int]) -> None:
    """Be this user and nobody more, for good; what it reads and prints through is its own, to be opened again."""
    for fd in {*streams}:
        if not stat.S_ISCHR(os.fstat(fd).st_mode) or os.isatty(fd):
            os.fchown(fd, order.user, -1)
    os.setgroups(order.user_groups)
    os.setresgid(order.user, order.user, order.user)
    os.setresuid(order.user, order.user, order.user)
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def _script(order: LaunchOrder) -> list[str]:
    """The command line of the script; one too long for a command line is read from a file that has no name."""
    if len(order.script.encode("utf-8", "surrogateescape")) <= _LONGEST_ARGUMENT:
        return [order.shell, "-c", order.script]
    fd = os.memfd_create("script", 0)
    rest = order.script.encode("utf-8", "surrogateescape")
    while rest:
        rest = rest[os.write(fd, rest) :]
    return [order.shell, f"/proc/self/fd/{fd}"]


def _execute(argv: list[str], env: dict[str, str]) -> None:
    if "/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606
    refused: OSError | None = None
    for folder in env.get("PATH", "/usr/bin:/bin").split(":"):
        try:
            os.execve(f"{folder or '.'}/{argv[0]}", argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = error
    raise refused or FileNotFoundError(2, os.strerror(2), argv[0])


def _raise_oom_score() -> None:
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        os.write(fd, _OOM_SCORE.encode())
        os.close(fd)
    except OSError:
        return
