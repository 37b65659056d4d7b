"""The connections of a shim: the engine that watches it, and the exec sessions in the pod."""

import fcntl
import os
import sys

from . import spawn
from .control_socket import ControlConnection, ControlListener
from .launch_file import LaunchConfig
from .process_tree import decode_status
from .signals import SIGKILL

_TIOCSWINSZ = 0x5414
_MAX_TERMINAL_CELLS = 10_000


class ControlSessions:
    def __init__(self, listener: ControlListener, config: LaunchConfig, groups: list[int]) -> None:
        self._listener = listener
        self._config = config
        self._cgroup_files = groups
        self._connections: dict[int, ControlConnection] = {}
        self._watchers: set[int] = set()
        self._commands: dict[int, ControlConnection] = {}

    def accept(self) -> int | None:
        """Accept a connection. Returns its descriptor, to be polled."""
        connection = self._listener.accept()
        if connection is None:
            return None
        self._connections[connection.fd] = connection
        return connection.fd

    def has_connection(self, fd: int) -> bool:
        return fd in self._connections

    def receive(self, fd: int) -> tuple[list[str], list[int]] | None:
        """The next request of this peer; None once it is gone."""
        return self._connections[fd].receive()

    def add_watcher(self, fd: int) -> None:
        self._watchers.add(fd)
        self._connections[fd].send("s")

    def notify_watchers(self, news: str) -> None:
        for fd in self._watchers:
            self._connections[fd].send(news)

    def send_error(self, fd: int, why: str) -> None:
        """Send an error, if the peer is still there."""
        if peer := self._connections.get(fd):
            peer.send(f"error\0{why}")

    def execute(self, fd: int, argv: list[str], fds: list[int], size: tuple[int, int] | None) -> None:
        """Start a command for this peer: on a terminal of this size, or on the two or three descriptors it sent."""
        peer = self._connections[fd]
        if peer.command_pid:
            self.send_error(fd, "This connection has a command already.")
            return
        try:
            if size:
                self._execute_on_pty(peer, argv, *size)
            else:
                peer.command_pid = spawn.start_process(
                    self._config, argv, self._cgroup_files, (fds[0], fds[1], fds[-1])
                )
                peer.send("ok")
        except OSError as error:
            self.send_error(fd, str(error))
            return
        self._commands[peer.command_pid] = peer

    def _execute_on_pty(self, peer: ControlConnection, argv: list[str], columns: int, rows: int) -> None:
        keyboard, terminal = os.openpty()
        try:
            cells = [min(max(1, n), _MAX_TERMINAL_CELLS) for n in (rows, columns)]
            fcntl.ioctl(keyboard, _TIOCSWINSZ, b"".join(n.to_bytes(2, sys.byteorder) for n in (*cells, 0, 0)))
            peer.command_pid = spawn.start_process(
                self._config, argv, self._cgroup_files, (terminal, terminal), tty=True
            )
            peer.send("ok", keyboard)
        finally:
            os.close(keyboard)
            os.close(terminal)

    def finish_command(self, pid: int, status: int) -> int | None:
        """Send the exit code of a session's process. Returns its connection, which has ended, or None for other
        processes."""
        peer = self._commands.pop(pid, None)
        if peer is None:
            return None
        peer.command_pid = 0
        code, signal = decode_status(status)
        peer.send(f"exit\0{code}\0{signal}")
        return peer.fd

    def kill_commands(self) -> None:
        """Kill all sessions; an interactive shell ignores TERM."""
        for peer in self._commands.values():
            _kill_process_group(peer)

    def close_connection(self, fd: int) -> None:
        """Close a connection and kill its command."""
        peer = self._connections.pop(fd)
        self._watchers.discard(fd)
        if peer.command_pid:
            del self._commands[peer.command_pid]
            _kill_process_group(peer)
        peer.close()


def _kill_process_group(peer: ControlConnection) -> None:
    for kill in (os.killpg, os.kill):  # a command that has just been started leads no process group yet
        try:
            kill(peer.command_pid, SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
