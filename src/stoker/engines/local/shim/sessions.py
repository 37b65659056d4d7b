"""Those who are connected to a keeper: the engine that watches it, and the commands that run beside the pod's own."""

import fcntl
import os
import sys

from . import child
from .control import Connection, Listener
from .order import LaunchOrder
from .signals import SIGKILL
from .tree import meaning

_TIOCSWINSZ = 0x5414
_MOST_CELLS = 10_000


class Desk:
    def __init__(self, listener: Listener, order: LaunchOrder, groups: list[int]) -> None:
        self._listener = listener
        self._order = order
        self._groups = groups
        self._connections: dict[int, Connection] = {}
        self._watchers: set[int] = set()
        self._commands: dict[int, Connection] = {}

    def welcome(self) -> int | None:
        """A new connection's descriptor, to be polled."""
        connection = self._listener.accept()
        if connection is None:
            return None
        self._connections[connection.fd] = connection
        return connection.fd

    def knows(self, fd: int) -> bool:
        return fd in self._connections

    def message(self, fd: int) -> tuple[list[str], list[int]] | None:
        """What this peer has to say; None once it has gone."""
        return self._connections[fd].receive()

    def watch(self, fd: int) -> None:
        self._watchers.add(fd)
        self._connections[fd].send("s")

    def tell(self, news: str) -> None:
        for fd in self._watchers:
            self._connections[fd].send(news)

    def refuse(self, fd: int, why: str) -> None:
        """Say no, if the peer is still there."""
        if peer := self._connections.get(fd):
            peer.send(f"error\0{why}")

    def execute(self, fd: int, argv: list[str], fds: list[int], size: tuple[int, int] | None) -> None:
        """Start a command for this peer: on a terminal of that size, or on the two descriptors it sent."""
        peer = self._connections[fd]
        if peer.command:
            self.refuse(fd, "This connection has a command already.")
            return
        try:
            if size:
                self._execute_on_terminal(peer, argv, *size)
            else:
                peer.command = child.start(self._order, argv, self._groups, (fds[0], fds[1]))
                peer.send("ok")
        except OSError as error:
            self.refuse(fd, str(error))
            return
        self._commands[peer.command] = peer

    def _execute_on_terminal(self, peer: Connection, argv: list[str], columns: int, rows: int) -> None:
        keyboard, terminal = os.openpty()
        try:
            cells = [min(max(1, n), _MOST_CELLS) for n in (rows, columns)]
            fcntl.ioctl(keyboard, _TIOCSWINSZ, b"".join(n.to_bytes(2, sys.byteorder) for n in (*cells, 0, 0)))
            peer.command = child.start(self._order, argv, self._groups, (terminal, terminal), tty=True)
            peer.send("ok", keyboard)
        finally:
            os.close(keyboard)
            os.close(terminal)

    def ended(self, pid: int, status: int) -> int | None:
        """A process has ended: if a peer asked for it, tell; returns the connection, which is over now."""
        peer = self._commands.pop(pid, None)
        if peer is None:
            return None
        peer.command = 0
        code, signal = meaning(status)
        peer.send(f"exit\0{code}\0{signal}")
        return peer.fd

    def hang_up(self) -> None:
        """End all commands; a shell with a keyboard does not listen to TERM."""
        for peer in self._commands.values():
            _kill(peer)

    def drop(self, fd: int) -> None:
        """Let a connection go, and the command that hung on it."""
        peer = self._connections.pop(fd)
        self._watchers.discard(fd)
        if peer.command:
            del self._commands[peer.command]
            _kill(peer)
        peer.close()


def _kill(peer: Connection) -> None:
    for kill in (os.killpg, os.kill):  # one that has just begun leads no group yet
        try:
            kill(peer.command, SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
