"""The TCP proxy of a service: one port for all replicas, with connections distributed round robin over ready ones.

Every connection takes two descriptors of the server, so their number is limited per service and in total; further
connections are rejected.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

_CHUNK_BYTES = 65_536
_CONNECT_TIMEOUT_SECONDS = 5.0
_HALF_CLOSED_IDLE_SECONDS = 300.0
"""How long one direction may be silent after the other has ended."""
_FLUSH_TIMEOUT_SECONDS = 30.0
MAX_CONNECTIONS_PER_SERVICE = 256
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_MAX_CONNECTIONS = 2048


class ReplicaAddress(Struct, frozen=True):
    """Where a replica listens, as seen from this server."""

    host: str
    port: int


class ConnectionLimit:
    """The limit of connections of all services together."""

    def __init__(self, most: int = _MAX_CONNECTIONS) -> None:
        self._max_open = most
        self.open_connections = 0

    @property
    def is_full(self) -> bool:
        return self.open_connections >= self._max_open


class TcpProxy:
    def __init__(
        self,
        host: str,
        targets: Callable[[], Sequence[ReplicaAddress]],
        connections: ConnectionLimit | None = None,
        most: int = MAX_CONNECTIONS_PER_SERVICE,
    ) -> None:
        self._host = host
        self._targets = targets
        self._connection_limit = connections or ConnectionLimit()
        self._max_connections = most
        self._round_robin = 0
        self._server: asyncio.Server | None = None
        self._connection_tasks: set[asyncio.Task[None]] = set()
        self._connections_by_replica: Counter[ReplicaAddress] = Counter()
        self.port = 0

    async def open(self, ports: Sequence[int]) -> None:
        """Listen on the first of these ports that is free; 0 means any port."""
        for port in ports:
            with contextlib.suppress(OSError):
                self._server = await asyncio.start_server(self._accept, self._host, port)
                self.port = self._server.sockets[0].getsockname()[1]
                return
        raise OSError(f"none of the ports {', '.join(map(str, ports))} can be listened on at {self._host}")

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connection_tasks):
            task.cancel()
        await asyncio.gather(*self._connection_tasks, return_exceptions=True)

    def has_connections_to(self, replica: ReplicaAddress) -> bool:
        """Whether the replica has connections."""
        return self._connections_by_replica[replica] > 0

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connection_limit.is_full or len(self._connection_tasks) >= self._max_connections:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connection_tasks.add(task)
        self._connection_limit.open_connections += 1
        try:
            await self._proxy_connection(reader, writer)
            await _close_writer(writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._connection_tasks.discard(task)
            self._connection_limit.open_connections -= 1

    async def _proxy_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for replica in self._round_robin_order():
            self._connections_by_replica[replica] += 1
            try:
                if (there := await _connect(replica)) is not None:
                    await self._copy_both_ways(reader, writer, there)
                    return
            finally:
                self._connections_by_replica[replica] -= 1
        writer.transport.abort()

    async def _copy_both_ways(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: _Streams
    ) -> None:
        ways = _OneWayCopy(reader, there[1]), _OneWayCopy(there[0], writer)
        pumps = [asyncio.create_task(way.copy()) for way in ways]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            await _wait_until_idle(ways, pumps)
            if not all(pump.done() and pump.exception() is None for pump in pumps):
                writer.transport.abort()
                return
            await _close_writer(there[1])
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            there[1].transport.abort()

    def _round_robin_order(self) -> list[ReplicaAddress]:
        """All replicas, starting with another one each time."""
        replicas = self._targets()
        self._round_robin += 1
        return [replicas[(self._round_robin + offset) % len(replicas)] for offset in range(len(replicas))]


async def _connect(replica: ReplicaAddress) -> _Streams | None:
    """A connection to a replica; None if it does not answer."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CONNECT_TIMEOUT_SECONDS):
            return await asyncio.open_connection(replica.host, replica.port)
    return None


class _OneWayCopy:
    """Copy one direction until its end; the other may continue."""

    def __init__(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        self._source = source
        self._sink = sink
        self.copied_bytes = 0

    async def copy(self) -> None:
        while data := await self._source.read(_CHUNK_BYTES):
            self._sink.write(data)
            await self._sink.drain()
            self.copied_bytes += len(data)
        if self._sink.can_write_eof():
            self._sink.write_eof()


async def _wait_until_idle(ways: Sequence[_OneWayCopy], pumps: Sequence[asyncio.Task[None]]) -> None:
    """Wait for both directions. When one has ended, the other is closed once it is silent or either has failed."""
    before = -1
    while not all(pump.done() for pump in pumps):
        moved = sum(way.copied_bytes for way in ways)
        if moved == before or any(pump.done() and pump.exception() for pump in pumps):
            return
        before = moved
        await asyncio.wait(pumps, timeout=_HALF_CLOSED_IDLE_SECONDS, return_when=asyncio.ALL_COMPLETED)


async def _close_writer(writer: asyncio.StreamWriter) -> None:
    """Close when everything is sent, or after a timeout: a peer that does not read must not hold a descriptor for
    ever."""
    writer.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_FLUSH_TIMEOUT_SECONDS):
            await writer.wait_closed()
