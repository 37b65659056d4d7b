"""The socket in a pod's folder through which the engine speaks to the keeper, one message a packet.

    watch                           "s" now and whenever a record has changed, "l" when lines were written
    stop SECONDS                    TERM to every process, KILL after the grace
    exec TTY COLUMNS ROWS ARG...    with input and output attached; answers "ok" (with the terminal attached) or
                                    "error TEXT", and at the end "exit CODE SIGNAL"

Words are separated by NUL. The connection that asked for a command is its life line.
"""

import _socket
import os
import sys

from .folder import CONTROL, Folder

_LARGEST = 1 << 18


class Connection:
    """One peer. What it does not take at once is dropped: it has older messages to read that say the same."""

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self.fd = socket.fileno()
        self.command = 0
        """The process of the command that this connection asked for."""

    def receive(self) -> tuple[list[str], list[int]] | None:
        """The words of a message and the descriptors that came with it; None once the peer has gone."""
        try:
            data, extras, _, _ = self._socket.recvmsg(_LARGEST, _socket.CMSG_SPACE(2 * 4))
        except BlockingIOError:
            return [""], []
        except OSError:
            return None
        packed = b"".join(payload for _, _, payload in extras)
        fds = [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4)]
        return (data.decode("utf-8", "surrogateescape").split("\0"), fds) if data else None

    def send(self, text: str, *fds: int) -> None:
        packed = b"".join(fd.to_bytes(4, sys.byteorder) for fd in fds)
        attached = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)] if fds else []
        try:
            self._socket.sendmsg([text.encode("utf-8", "surrogateescape")], attached, _socket.MSG_NOSIGNAL)
        except OSError:
            return

    def close(self) -> None:
        self._socket.close()


class Listener:
    def __init__(self, folder: Folder) -> None:
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK)
        if folder.has(CONTROL):
            folder.remove(CONTROL)  # of a shim that died before it began
        # a socket's path may hold 107 bytes, and a data directory can be longer than that
        self._socket.bind(f"/proc/self/fd/{folder.fd}/{CONTROL}")
        self._socket.listen(64)
        self.fd = self._socket.fileno()

    def accept(self) -> Connection | None:
        try:
            fd, _ = self._socket._accept()  # pyrefly: ignore[missing-attribute]
        except OSError:
            return None
        os.set_blocking(fd, False)
        return Connection(_socket.socket(fileno=fd))
