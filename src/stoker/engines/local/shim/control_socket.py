"""The control socket in a pod's directory: the requests of the engine to the shim, one message per packet.

    watch                           "s" now and whenever a record has changed, "l" when lines were written
    stop SECONDS                    TERM to every process, KILL after the grace period
    exec TTY COLUMNS ROWS ARG...    without a terminal, stdin, stdout and optionally stderr are attached; the answer is
                                    "ok" (with the terminal attached) or "error TEXT", and at the end "exit CODE SIGNAL"

Words are separated by NUL. A command is killed when the connection that started it closes.
"""

import _socket
import os
import sys

from .pod_dir import CONTROL_SOCKET, PodDir

_MAX_MESSAGE_BYTES = 1 << 18


class ControlConnection:
    """One peer. Messages that it does not accept at once are dropped: it still has older, equivalent messages to
    read."""

    def __init__(self, socket: _socket.socket) -> None:
        self._socket = socket
        self.fd = socket.fileno()
        self.command_pid = 0
        """The process of the command that this connection started."""

    def receive(self) -> tuple[list[str], list[int]] | None:
        """The words of a message and the descriptors that came with it; None once the peer has disconnected."""
        try:
            data, extras, _, _ = self._socket.recvmsg(_MAX_MESSAGE_BYTES, _socket.CMSG_SPACE(3 * 4))
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


class ControlListener:
    def __init__(self, folder: PodDir) -> None:
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_NONBLOCK)
        if folder.exists(CONTROL_SOCKET):
            folder.remove(CONTROL_SOCKET)  # left by a shim that died before it started
        # a socket path has at most 107 bytes, and the path of a data directory can be longer
        self._socket.bind(f"/proc/self/fd/{folder.fd}/{CONTROL_SOCKET}")
        self._socket.listen(64)
        self.fd = self._socket.fileno()

    def accept(self) -> ControlConnection | None:
        try:
            fd, _ = self._socket._accept()  # pyrefly: ignore[missing-attribute]
        except OSError:
            return None
        os.set_blocking(fd, False)
        return ControlConnection(_socket.socket(fileno=fd))
