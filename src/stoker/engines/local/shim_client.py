"""The engine's end of a keeper's control socket. A link that was made proves that the keeper lived then.

The socket brings news; the process descriptor tells the death, which comes after the pod's whole tree has died.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from stoker.engines.local.keeper.folder import CONTROL, LOCK

HANG_SECONDS = 10.0
"""How much longer than its grace a keeper may take before it is killed, and its pod with it."""


def dial(pod_folder: Path) -> socket.socket | None:
    """A connection to the keeper; None if there is none that listens."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        folder = os.open(pod_folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            channel.connect(f"/proc/self/fd/{folder}/{CONTROL}")
        finally:
            os.close(folder)
    except OSError:
        channel.close()
        return None
    return channel


class Link:
    def __init__(
        self,
        channel: socket.socket,
        pid: int,
        process: int,
        on_news: Callable[[str], None],
        on_death: Callable[[], None],
    ) -> None:
        self.pid = pid
        self._channel = channel
        self._process = process
        self._on_news = on_news
        self._on_death = on_death
        self._last_resort: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(channel, self._read)
        self._loop.add_reader(process, self._died)

    def stop(self, grace_seconds: float) -> None:
        """Ask for the end. A keeper that does not answer is killed some time after the grace."""
        with contextlib.suppress(OSError):  # dead, or deaf
            self._channel.send(f"stop\0{grace_seconds}".encode())
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._last_resort = self._loop.call_later(grace_seconds + HANG_SECONDS, self._kill)

    def close(self) -> None:
        """Let go of the keeper, which goes on."""
        if self._last_resort is not None:
            self._last_resort.cancel()
        self._hang_up()
        if self._process >= 0:
            self._loop.remove_reader(self._process)
            os.close(self._process)
            self._process = -1

    def _read(self) -> None:
        news: dict[str, None] = {}
        gone = False
        while not gone:
            try:
                data = self._channel.recv(16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            gone = not data
            news[data.decode() or "s"] = None
        if gone:
            self._hang_up()
        for each in news:
            self._on_news(each)

    def _hang_up(self) -> None:
        if self._channel.fileno() >= 0:
            self._loop.remove_reader(self._channel)
            self._channel.close()

    def _died(self) -> None:
        self.close()
        self._on_death()

    def _kill(self) -> None:
        if self._process >= 0:
            signal.pidfd_send_signal(self._process, signal.SIGKILL)


def connect(pod_folder: Path, on_news: Callable[[str], None], on_death: Callable[[], None]) -> Link | None:
    """Link up with the keeper of this pod, whoever started it; None if it has gone, or is not there yet."""
    channel = dial(pod_folder)
    if channel is None:
        return None
    try:
        pid = int((pod_folder / LOCK).read_text() or "0")
        process = os.pidfd_open(pid)
    except (OSError, ValueError):
        channel.close()
        return None
    try:
        channel.send(b"watch")  # still there after the process was opened, so the process is the keeper
    except OSError:
        os.close(process)
        channel.close()
        return None
    return Link(channel, pid, process, on_news, on_death)
