"""One port for all the replicas of a service: connections go to those that are up, in turn.

A connection holds two of the server's descriptors, so a service has a share of them and all services together another;
what comes beyond is turned away.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

_CHUNK = 65_536
_CONNECT_SECONDS = 5.0
_HALF_IDLE_SECONDS = 300.0
"""How long one way may be silent after the other has ended."""
_FLUSH_SECONDS = 30.0
PER_SERVICE = 256
_OVER_ALL = 2048


class Connections:
    """How many connections all services have together."""

    def __init__(self, most: int = _OVER_ALL) -> None:
        self._most = most
        self.open = 0

    @property
    def full(self) -> bool:
        return self.open >= self._most


class Forwarder:
    def __init__(
        self,
        host: str,
        targets: Callable[[], Sequence[int]],
        connections: Connections | None = None,
        most: int = PER_SERVICE,
    ) -> None:
        self._host = host
        self._targets = targets
        self._connections = connections or Connections()
        self._most = most
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
        if self._connections.full or len(self._talks) >= self._most:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._talks.add(task)
        self._connections.open += 1
        try:
            await self._talk(reader, writer)
            await _shut(writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._talks.discard(task)
            self._connections.open -= 1

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await self._connect()
        if there is None:
            writer.transport.abort()
            return
        ways = _Way(reader, there[1]), _Way(there[0], writer)
        pumps = [asyncio.create_task(way.pump()) for way in ways]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await _while_moving(ways, pumps)
            if not all(pump.done() and pump.exception() is None for pump in pumps):
                writer.transport.abort()
                return
            await _shut(there[1])
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            there[1].transport.abort()

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


class _Way:
    """Bytes one way, and their end; the other way may go on."""

    def __init__(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._source = source
        self._sink = sink
        self.moved = 0

    async def pump(self) -> None:
        while data := await self._source.read(_CHUNK):
            self._sink.write(data)
            await self._sink.drain()
            self.moved += len(data)
        if self._sink.can_write_eof():
            self._sink.write_eof()


async def _while_moving(ways: Sequence[_Way], pumps: Sequence[asyncio.Task[None]]) -> None:
    """Wait for both to end; one way has ended, and the other is given up when it is silent or either has failed."""
    before = -1
    while not all(pump.done() for pump in pumps):
        moved = sum(way.moved for way in ways)
        if moved == before or any(pump.done() and pump.exception() for pump in pumps):
            return
        before = moved
        await asyncio.wait(pumps, timeout=_HALF_IDLE_SECONDS, return_when=asyncio.ALL_COMPLETED)


async def _shut(writer: asyncio.StreamWriter) -> None:
    """Close when all is sent, or after a while: a peer that does not read holds no descriptor for ever."""
    writer.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH_SECONDS):
            await writer.wait_closed()
