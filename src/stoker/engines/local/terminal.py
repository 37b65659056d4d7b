"""Exec sessions: the shim starts a command in the pod, on a terminal or on pipes, and the engine reads and writes
it."""

import array
import asyncio
import contextlib
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Callable
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local.shim_client import open_control_socket

NOT_RUNNING = "The pod does not run, so nothing can be started in it."
_CHUNK_BYTES = 65_536
_EOT = b"\x04"
_REPLY_TIMEOUT_SECONDS = 10.0
_KILLED_EXIT_CODE = 137
_MAX_TERMINAL_CELLS = 65_535


class LocalTerminal:
    """An exec session. With a terminal `output` and `keyboard` are the same descriptor; `errors` is -1 if stderr is not
    separate."""

    def __init__(self, channel: socket.socket, output: int, keyboard: int, errors: int, *, tty: bool) -> None:
        self._socket = channel
        self._output = output
        self._errors = errors
        self._input = keyboard
        self._tty = tty
        self._fd_waiters: dict[tuple[int, bool], asyncio.Future[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._exit_future: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(channel, self._on_exit)
        for fd in {output, keyboard, errors} - {-1}:
            os.set_blocking(fd, False)

    async def read(self) -> bytes:
        return await self._read(lambda: self._output)

    async def read_stderr(self) -> bytes:
        return await self._read(lambda: self._errors)

    async def _read(self, source: Callable[[], int]) -> bytes:
        while (fd := source()) >= 0:  # it may be closed meanwhile
            try:
                return os.read(fd, _CHUNK_BYTES)
            except BlockingIOError:
                await self._wait_fd(fd, writing=False)
            except OSError:
                return b""  # the last process of the terminal has exited
        return b""

    async def write(self, data: bytes) -> None:
        while data and self._input >= 0:
            try:
                data = data[os.write(self._input, data) :]
            except BlockingIOError:
                await self._wait_fd(self._input, writing=True)
            except OSError:
                return  # the reader is gone

    async def close_stdin(self) -> None:
        if self._tty:
            await self.write(_EOT)
        elif self._input >= 0:
            self._close_fd(self._input)
            self._input = -1

    async def resize(self, columns: int, rows: int) -> None:
        if self._tty and self._input >= 0:
            cells = [min(max(1, size), _MAX_TERMINAL_CELLS) for size in (rows, columns)]
            fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", *cells, 0, 0))

    async def exit_code(self) -> int:
        return await asyncio.shield(self._exit_future)

    async def close(self) -> None:
        self._finish(_KILLED_EXIT_CODE)
        for fd in {self._output, self._errors, self._input} - {-1}:
            self._close_fd(fd)
        self._output = self._errors = self._input = -1

    def _on_exit(self) -> None:
        """The shim sends the exit code. If the connection ends without it, the pod was killed and the command with
        it."""
        words = [""]
        with contextlib.suppress(OSError):
            words = self._socket.recv(64).decode().split("\0")
        self._finish(int(words[1]) if words[0] == "exit" else _KILLED_EXIT_CODE)

    def _finish(self, code: int) -> None:
        if not self._exit_future.done():
            self._exit_future.set_result(code)
            self._loop.remove_reader(self._socket)
            self._socket.close()

    async def _wait_fd(self, fd: int, *, writing: bool) -> None:
        future = self._fd_waiters[fd, writing] = self._loop.create_future()
        add = self._loop.add_writer if writing else self._loop.add_reader
        add(fd, self._wake, fd, writing)
        try:
            await future
        finally:
            self._wake(fd, writing)

    def _wake(self, fd: int, writing: bool) -> None:
        """End a wait and forget its descriptor at once, because its number may be reused."""
        if future := self._fd_waiters.pop((fd, writing), None):
            (self._loop.remove_writer if writing else self._loop.remove_reader)(fd)
            if not future.done():
                future.set_result(None)

    def _close_fd(self, fd: int) -> None:
        for writing in (False, True):
            self._wake(fd, writing)
        os.close(fd)


async def open_terminal(
    pod_folder: Path, command: list[str], *, tty: bool, columns: int, rows: int, stderr: bool = False
) -> LocalTerminal:
    channel = open_control_socket(pod_folder)
    if channel is None:
        raise StokerError(ErrorCode.CONFLICT, NOT_RUNNING)
    words = ["exec", "1" if tty else "0", str(columns), str(rows), *command]
    theirs: list[int] = []
    ours: list[int] = []
    try:
        if not tty:
            for pipe_ends in (theirs, ours), (ours, theirs), *([(ours, theirs)] if stderr else []):
                for ends, fd in zip(pipe_ends, os.pipe(), strict=True):
                    ends.append(fd)
        message = "\0".join(words).encode("utf-8", "surrogateescape")
        attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))] if theirs else []
        channel.sendmsg([message], attached)
        ours += await _read_reply(channel)
    except BaseException:
        channel.close()
        for fd in ours:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    keyboard, output = (ours[0], ours[0]) if tty else (ours[0], ours[1])
    return LocalTerminal(channel, output, keyboard, ours[2] if len(ours) > 2 else -1, tty=tty)


async def _read_reply(channel: socket.socket) -> list[int]:
    """The terminal's descriptor, if there is one; raises the error that the shim answers."""
    words = [""]
    fds: list[int] = []
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_REPLY_TIMEOUT_SECONDS):
            await _wait_readable(channel)
        data, fds, _, _ = socket.recv_fds(channel, 4096, 1)
        words = data.decode("utf-8", "replace").split("\0")
    if words[0] != "ok":
        raise StokerError(ErrorCode.CONFLICT, words[1] if len(words) > 1 else NOT_RUNNING)
    return fds


async def _wait_readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(channel)
