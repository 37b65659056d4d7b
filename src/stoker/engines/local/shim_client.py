"""The engine's connection to a shim.

The control socket delivers notifications; the pidfd reports the death of the shim, which comes after the death of the
pod's whole process tree. A connection proves that the shim was alive when it was made.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from stoker.engines.local.shim.pod_dir import CONTROL_SOCKET, LOCK_FILE

UNRESPONSIVE_SECONDS = 10.0
"""How long after the grace period a shim that has not exited is killed, and its pod with it."""


def open_control_socket(pod_folder: Path) -> socket.socket | None:
    """A connection to the shim; None if it does not listen."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        folder = os.open(pod_folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            channel.connect(f"/proc/self/fd/{folder}/{CONTROL_SOCKET}")
        finally:
            os.close(folder)
    except OSError:
        channel.close()
        return None
    return channel


class ShimClient:
    def __init__(
        self,
        channel: socket.socket,
        pid: int,
        process: int,
        on_news: Callable[[str], None],
        on_death: Callable[[], None],
    ) -> None:
        self.pid = pid
        self._socket = channel
        self._pidfd = process
        self._on_notification = on_news
        self._on_exit = on_death
        self._kill_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(channel, self._read)
        self._loop.add_reader(process, self._handle_exit)

    def stop(self, grace_seconds: float) -> None:
        """Ask the pod to stop. A shim that does not exit is killed some time after the grace period."""
        with contextlib.suppress(OSError):  # it has died or does not read
            self._socket.send(f"stop\0{grace_seconds}".encode())
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._kill_timer = self._loop.call_later(grace_seconds + UNRESPONSIVE_SECONDS, self._kill)

    def close(self) -> None:
        """Close the connection; the shim keeps running."""
        if self._kill_timer is not None:
            self._kill_timer.cancel()
        self._close_socket()
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    def _read(self) -> None:
        notifications: dict[str, None] = {}
        gone = False
        while not gone:
            try:
                data = self._socket.recv(16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            gone = not data
            notifications[data.decode() or "s"] = None
        if gone:
            self._close_socket()
        for notification in notifications:
            self._on_notification(notification)

    def _close_socket(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()

    def _handle_exit(self) -> None:
        self.close()
        self._on_exit()

    def _kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):  # it has died and its exit was not handled yet
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


def connect_shim(pod_folder: Path, on_news: Callable[[str], None], on_death: Callable[[], None]) -> ShimClient | None:
    """Connect to the shim of this pod; None if it is gone or does not listen yet."""
    channel = open_control_socket(pod_folder)
    if channel is None:
        return None
    try:
        pid = int((pod_folder / LOCK_FILE).read_text() or "0")
        process = os.pidfd_open(pid)
    except (OSError, ValueError):
        channel.close()
        return None
    try:
        channel.send(b"watch")  # it still answers after the pidfd was opened, so the pidfd is the shim's
    except OSError:
        os.close(process)
        channel.close()
        return None
    return ShimClient(channel, pid, process, on_news, on_death)
