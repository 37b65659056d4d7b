"""Commands that run beside a pod's own: the keeper starts them inside the pod, on a terminal or on two pipes."""

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local.link import dial

NOT_RUNNING = "The pod does not run, so nothing can be started in it."
_CHUNK = 65_536
_END_OF_INPUT = b"\x04"
_ANSWER_SECONDS = 10.0
_KILLED = 137
_MOST_CELLS = 65_535


class LocalTerminal:
    """Reads from and writes to a command. `output` and `keyboard` are the same descriptor when it has a terminal."""

    def __init__(self, channel: socket.socket, output: int, keyboard: int, *, tty: bool) -> None:
        self._channel = channel
        self._output = output
        self._input = keyboard
        self._tty = tty
        self._waits: dict[tuple[int, bool], asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(channel, self._ended)
        for fd in {output, keyboard}:
            os.set_blocking(fd, False)

    async def read(self) -> bytes:
        while self._output >= 0:
            try:
                return os.read(self._output, _CHUNK)
            except BlockingIOError:
                await self._ready(self._output, writing=False)
            except OSError:
                return b""  # a terminal whose last user has gone
        return b""

    async def write(self, data: bytes) -> None:
        while data and self._input >= 0:
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                await self._ready(self._input, writing=True)
            except OSError:
                return  # nobody reads any more

    async def end_input(self) -> None:
        if self._tty:
            await self.write(_END_OF_INPUT)
        elif self._input >= 0:
            self._let_go(self._input)
            self._input = -1

    async def resize(self, columns: int, rows: int) -> None:
        if self._tty and self._input >= 0:
            cells = [min(max(1, size), _MOST_CELLS) for size in (rows, columns)]
            fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", *cells, 0, 0))

    async def exit_code(self) -> int:
        return await asyncio.shield(self._end)

    async def close(self) -> None:
        self._over(_KILLED)
        for fd in {self._output, self._input} - {-1}:
            self._let_go(fd)
        self._output = self._input = -1

    def _ended(self) -> None:
        """The keeper tells the end; if it goes first, the pod was killed and the command with it."""
        words = [""]
        with contextlib.suppress(OSError):
            words = self._channel.recv(64).decode().split("\0")
        self._over(int(words[1]) if words[0] == "exit" else _KILLED)

    def _over(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)
            self._loop.remove_reader(self._channel)
            self._channel.close()

    async def _ready(self, fd: int, *, writing: bool) -> None:
        future = self._waits[fd, writing] = self._loop.create_future()
        add = self._loop.add_writer if writing else self._loop.add_reader
        add(fd, self._wake, fd, writing)
        try:
            await future
        finally:
            self._wake(fd, writing)

    def _wake(self, fd: int, writing: bool) -> None:
        """A wait is over. Its descriptor is let go of at once: the number may be another's soon."""
        if future := self._waits.pop((fd, writing), None):
            (self._loop.remove_writer if writing else self._loop.remove_reader)(fd)
            if not future.done():
                future.set_result(None)

    def _let_go(self, fd: int) -> None:
        for writing in (False, True):
            self._wake(fd, writing)
        os.close(fd)


async def open_terminal(pod_folder: Path, command: list[str], *, tty: bool, columns: int, rows: int) -> LocalTerminal:
    """Start a command in the pod."""
    channel = dial(pod_folder)
    if channel is None:
        raise StokerError(ErrorCode.STATE_FORBIDS, NOT_RUNNING)
    words = ["exec", "1" if tty else "0", str(columns), str(rows), *command]
    theirs: list[int] = []
    ours: list[int] = []
    try:
        if not tty:
            (read_input, write_input), (read_output, write_output) = os.pipe(), os.pipe()
            theirs, ours = [read_input, write_output], [read_output, write_input]
        message = "\0".join(words).encode("utf-8", "surrogateescape")
        attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))] if theirs else []
        channel.sendmsg([message], attached)
        ours += await _answer(channel)
    except BaseException:
        channel.close()
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return LocalTerminal(channel, ours[0], ours[-1], tty=tty)


async def _answer(channel: socket.socket) -> list[int]:
    """The terminal, if there is one; raises what the keeper says against it."""
    words = [""]
    fds: list[int] = []
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            await _readable(channel)
        data, fds, _, _ = socket.recv_fds(channel, 4096, 1)
        words = data.decode("utf-8", "replace").split("\0")
    if words[0] != "ok":
        raise StokerError(ErrorCode.STATE_FORBIDS, words[1] if len(words) > 1 else NOT_RUNNING)
    return fds


async def _readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(channel)
