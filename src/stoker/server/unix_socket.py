"""The Unix socket in the data dir, through which local tools reach the server without a key."""

import contextlib
import logging
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from stoker.client.transport.unix_socket import SOCKET_NAME, kernel_socket_path

BACKLOG = 128
SOCKET_MODE = 0o600

log = logging.getLogger("stoker.server")


@contextlib.contextmanager
def unix_listener(data_dir: Path) -> Iterator[socket.socket | None]:
    """A listening socket for the owner of the data dir, removed at the end; None if it cannot be created.

    The caller holds the lock of the data dir, so an existing socket belongs to a server that has ended.
    """
    path = data_dir.absolute() / SOCKET_NAME
    try:
        listening = _listen(path)
    except OSError as error:
        log.warning(
            "The socket %s cannot be made (%s): the command line needs --server and a credential.",
            path,
            error.strerror or error,
        )
        yield None
        return
    try:
        yield listening
    finally:
        listening.close()
        with contextlib.suppress(OSError):
            path.unlink()


def _listen(path: Path) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(0, "something else has its name")
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(kernel_socket_path(str(path)))
        path.chmod(SOCKET_MODE)
        listening.listen(BACKLOG)  # connections are accepted from now on
    except OSError:
        listening.close()
        raise
    return listening
