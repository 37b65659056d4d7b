"""Exec sessions: a command in the container of a pod, on a terminal or on pipes."""

import asyncio
import contextlib
import uuid
from collections import deque

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.docker.api.client import DockerClient
from stoker.engines.docker.api.frames import STDERR, FrameDecoder
from stoker.engines.docker.api.hijack import HijackedStream

NOT_RUNNING = "The pod does not run, so nothing can be started in it."
SESSION_VARIABLE = "STOKER_EXEC_SESSION"
"""Marks the processes of a session, so that they can be ended with it; Docker itself cannot."""
MAX_BUFFERED_BYTES = 1024**2
_EOT = b"\x04"
_KILLED_EXIT_CODE = 137
_EXIT_POLLS = 100
_EXIT_POLL_SECONDS = 0.05
_KILL_SCRIPT = (
    'for s in STOP KILL; do for p in /proc/[0-9]*; do if grep -q "$1" "$p/environ" 2>/dev/null; then '
    'kill -$s "${p#/proc/}"; fi; done; done'
)
"""All processes are stopped first: a shell whose child is killed before it would go on with its next command."""


class _OutputBuffer:
    """The bytes of one stream between the connection and the reader."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Condition()

    async def put(self, data: bytes) -> None:
        """Add bytes; waits while the reader is far behind."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._size < MAX_BUFFERED_BYTES or self._ended)
            self._pieces.append(data)
            self._size += len(data)
            self._changed.notify_all()

    async def get(self) -> bytes:
        """Everything that is here; empty at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._pieces) or self._ended)
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
            self._changed.notify_all()
            return data

    async def end(self) -> None:
        async with self._changed:
            self._ended = True
            self._changed.notify_all()


class DockerTerminal:
    def __init__(
        self,
        client: DockerClient,
        container: str,
        session: str,
        stream: HijackedStream,
        mark: str,
        *,
        tty: bool,
        stderr: bool,
    ) -> None:
        self._client = client
        self._container = container
        self._session = session
        self._stream = stream
        self._mark = mark
        self._tty = tty
        self._output = _OutputBuffer()
        self._errors = _OutputBuffer() if stderr and not tty else None
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._pump())

    async def read(self) -> bytes:
        return await self._output.get()

    async def read_stderr(self) -> bytes:
        return await self._errors.get() if self._errors is not None else b""

    async def write(self, data: bytes) -> None:
        await self._stream.write(data)

    async def close_stdin(self) -> None:
        if self._tty:
            await self.write(_EOT)
        else:
            await self._stream.close_writing()

    async def resize(self, columns: int, rows: int) -> None:
        if self._tty:
            with contextlib.suppress(StokerError):  # the command has ended meanwhile
                await self._client.resize_exec(self._session, columns, rows)

    async def exit_code(self) -> int:
        return await asyncio.shield(self._exit_code)

    async def close(self) -> None:
        if not self._exit_code.done():
            await self._kill()
            self._exit_code.set_result(_KILLED_EXIT_CODE)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._end_output()
        await self._stream.close()

    async def _pump(self) -> None:
        """Distribute the output, then ask for the exit code."""
        decoder = FrameDecoder()
        while data := await self._stream.read():
            if self._tty:
                await self._output.put(data)
                continue
            for frame in decoder.feed(data):
                separate = self._errors if frame.stream == STDERR else None
                await (separate or self._output).put(frame.content)
        code = await self._ask_exit_code()
        await self._end_output()
        if not self._exit_code.done():
            self._exit_code.set_result(code)

    async def _end_output(self) -> None:
        await self._output.end()
        if self._errors is not None:
            await self._errors.end()

    async def _ask_exit_code(self) -> int:
        """Docker knows the exit code a moment after the output has ended. If the container was removed, the command
        was killed with it."""
        for _ in range(_EXIT_POLLS):
            try:
                state = await self._client.inspect_exec(self._session)
            except StokerError:
                return _KILLED_EXIT_CODE
            if not state.running and state.exit_code is not None:
                return state.exit_code
            await asyncio.sleep(_EXIT_POLL_SECONDS)
        return _KILLED_EXIT_CODE

    async def _kill(self) -> None:
        with contextlib.suppress(StokerError):
            command = ["/bin/sh", "-c", _KILL_SCRIPT, "sh", f"{SESSION_VARIABLE}={self._mark}"]
            session = await self._client.create_exec(self._container, {"Cmd": command, "User": "0"})
            await self._client.run_exec(session)


async def open_terminal(
    client: DockerClient, container: str, command: list[str], *, tty: bool, columns: int, rows: int, stderr: bool
) -> DockerTerminal:
    mark = uuid.uuid4().hex
    env = [f"{SESSION_VARIABLE}={mark}", *(["TERM=xterm-256color"] if tty else [])]
    body = {
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": tty,
        "Cmd": command,
        "Env": env,
    }
    try:
        session = await client.create_exec(container, body)
        stream = await client.start_exec(session, tty=tty)
    except StokerError as error:
        if error.code in {ErrorCode.CONFLICT, ErrorCode.NOT_FOUND}:
            raise StokerError(ErrorCode.CONFLICT, NOT_RUNNING) from error
        raise
    terminal = DockerTerminal(client, container, session, stream, mark, tty=tty, stderr=stderr)
    await terminal.resize(columns, rows)
    return terminal
