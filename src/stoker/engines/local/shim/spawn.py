"""Starts commands: a fork that joins the control groups, drops privileges and executes the command."""

import fcntl
import os
import stat

from .launch_file import LaunchConfig
from .sandbox import drop_capabilities
from .signals import SIGKILL, restore_defaults
from .syscalls import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, prctl

EXIT_CANNOT_EXECUTE = 126
EXIT_NOT_FOUND = 127
_TIOCSCTTY = 0x540E
_MAX_ARGUMENT_BYTES = 120_000
_OOM_SCORE = "300"
"""Out of memory, the kernel kills jobs before the server and the shims."""


def start_process(
    config: LaunchConfig, argv: list[str], groups: list[int], streams: tuple[int, ...], *, tty: bool = False
) -> int:
    """Start a command, or the pod's script if none is given, with these descriptors as stdin, stdout and stderr; the
    last two may be the same. Returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            _exec_child(config, argv, groups, streams, tty=tty)
        except OSError as error:
            name = (argv or [config.shell])[0]
            os.write(2, f"[stoker] {name} could not be started: {error}\n".encode("utf-8", "replace"))
            os._exit(EXIT_NOT_FOUND if isinstance(error, FileNotFoundError) else EXIT_CANNOT_EXECUTE)
        finally:
            os._exit(EXIT_CANNOT_EXECUTE)
    return pid


def _exec_child(
    config: LaunchConfig, argv: list[str], groups: list[int], streams: tuple[int, ...], *, tty: bool
) -> None:
    os.setsid()
    if tty:
        fcntl.ioctl(streams[0], _TIOCSCTTY, 0)
    os.dup2(streams[0], 0)
    os.dup2(streams[1], 1)
    os.dup2(streams[-1], 2)
    for group in groups:
        os.write(group, b"0")
    _raise_oom_score()
    if config.data_limit_bytes:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (config.data_limit_bytes, config.data_limit_bytes))
    if config.use_namespaces:
        drop_capabilities()
    else:
        prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.umask(0o022)
    os.chdir(config.working_dir)
    restore_defaults()
    if config.uid:
        _drop_to_user(config, streams)
    _exec(argv or _script_argv(config), config.env | {"TERM": "xterm-256color"} if tty else config.env)


def _drop_to_user(config: LaunchConfig, streams: tuple[int, ...]) -> None:
    """Become this user permanently. The streams are given to it, so that it can open them again."""
    for fd in {*streams}:
        if not stat.S_ISCHR(os.fstat(fd).st_mode) or os.isatty(fd):
            os.fchown(fd, config.uid, -1)
    os.setgroups(config.supplementary_groups)
    os.setresgid(config.uid, config.uid, config.uid)
    os.setresuid(config.uid, config.uid, config.uid)
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def _script_argv(config: LaunchConfig) -> list[str]:
    """The command line of the script. One that is too long for a command line is read from an anonymous file."""
    if len(config.script.encode("utf-8", "surrogateescape")) <= _MAX_ARGUMENT_BYTES:
        return [config.shell, "-c", config.script]
    fd = os.memfd_create("script", 0)
    rest = config.script.encode("utf-8", "surrogateescape")
    while rest:
        rest = rest[os.write(fd, rest) :]
    return [config.shell, f"/proc/self/fd/{fd}"]


def _exec(argv: list[str], env: dict[str, str]) -> None:
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
