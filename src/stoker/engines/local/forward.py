"""One port for all the replicas of a service: connections go to those that are up, in turn."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

_CHUNK = 65_536
_CONNECT_SECONDS = 5.0


class Forwarder:
    def __init__(self, host: str, targets: Callable[[], Sequence[int]]) -> None:
        self._host = host
        self._targets = targets
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def open(self, ports: Sequence[int]) -> None:
        """Listen on the first of these ports that can be had; 0 is any."""
        for port in ports:
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(self._accept, self._host, port)
                self.port = self._server.sockets[0].getsockname()[1]
                return
        raise OSError(f"none of the ports {', '.join(map(str, ports))} can be listened on at {self._host}")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._talks):
            task.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        try:
            await self._talk(reader, writer)
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._talks.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await self._connect()
        if there is None:
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, there[1]))
                both.create_task(_pump(there[0], writer))
        except* OSError:
            writer.transport.abort()
        finally:
            there[1].close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """The next replica that answers; each is asked once."""
        ports = self._targets()
        self._turn += 1
        for offset in range(len(ports)):
            port = ports[(self._turn + offset) % len(ports)]
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection("127.0.0.1", port)
        return None


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Bytes one way, and their end; the other way may go on."""
    while data := await source.read(_CHUNK):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
