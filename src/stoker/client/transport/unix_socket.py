"""The Unix socket of this machine's server, in its data dir."""

import functools
import os
import stat
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import DEFAULT_DATA_DIR, DEMO_DATA_DIR

UNIX_SCHEME = "unix://"
SOCKET_NAME = "stoker.sock"
MAX_SOCKET_PATH_BYTES = 107
"""The longest socket path that the kernel accepts."""


def local_data_dir() -> Path:
    """The data dir of this machine's server; that of the demo if only the demo runs."""
    if given := os.environ.get("STOKER_DATA_DIR"):
        return Path(given).expanduser().absolute()
    default, demo = (Path(path).expanduser().absolute() for path in (DEFAULT_DATA_DIR, DEMO_DATA_DIR))
    return demo if _has_socket(demo) and not _has_socket(default) else default


def local_server_address() -> str | None:
    """The address of the socket in the data dir; None if there is no socket."""
    data_dir = local_data_dir()
    return f"{UNIX_SCHEME}{data_dir / SOCKET_NAME}" if _has_socket(data_dir) else None


def _has_socket(data_dir: Path) -> bool:
    try:
        return stat.S_ISSOCK((data_dir / SOCKET_NAME).stat().st_mode)
    except OSError:
        return False


def socket_path(server: str) -> str | None:
    """The path of a server's socket; None if the server is reached over TCP."""
    return server.removeprefix(UNIX_SCHEME) if server.startswith(UNIX_SCHEME) else None


def kernel_socket_path(path: str) -> str:
    """A path of the same socket that is short enough for the kernel."""
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES:
        return path
    folder, name = os.path.split(path)
    try:
        return f"/proc/self/fd/{_directory_fd(folder)}/{name}"
    except OSError as error:
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"The socket {path} cannot be reached: {(error.strerror or str(error)).lower()}.",
            hint=f"The path has more than {MAX_SOCKET_PATH_BYTES} bytes; make a symbolic link with a shorter one.",
        ) from error


@functools.cache
def _directory_fd(path: str) -> int:
    """A descriptor of a directory, open until the process exits."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
