"""The proxy of a service uses a limited number of descriptors and closes idle ones."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Self

import pytest

from stoker.engines.proxy import tcp
from stoker.engines.proxy.tcp import ConnectionLimit, ReplicaAddress, TcpProxy

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        writer.write(data)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Does not close its half when the other has ended."""
    await reader.read()
    await asyncio.Event().wait()


class ProxyHarness:
    """A service, its forwarder and connections to it, all closed at the end."""

    def __init__(self, connections: ConnectionLimit, most: int = 100, handler: Handler = echo) -> None:
        self._handler = handler
        self._serving: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._port = 0
        self._forwarder = TcpProxy("127.0.0.1", lambda: [ReplicaAddress("127.0.0.1", self._port)], connections, most)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        await self._forwarder.open([0])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._forwarder.close()
        for writer in self._writers:
            writer.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, *(each.wait_closed() for each in self._writers), return_exceptions=True)
        self._server.close()

    async def dial(self) -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", self._forwarder.port)
        self._writers.append(streams[1])
        return streams

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._handler(reader, writer)
        writer.close()
        self._serving.discard(task)


async def answers(streams: Streams) -> bool:
    try:
        streams[1].write(b"hello")
        return await streams[0].read(5) == b"hello"
    except OSError:
        return False


async def until_open(connections: ConnectionLimit, count: int) -> None:
    async with asyncio.timeout(5):
        while connections.open_connections != count:
            await asyncio.sleep(0)


def test_connections_beyond_a_services_share_are_turned_away_until_one_has_gone() -> None:
    async def main() -> None:
        connections = ConnectionLimit()
        async with ProxyHarness(connections, most=3) as made:
            kept = [await made.dial() for _ in range(3)]
            assert all([await answers(each) for each in kept])
            assert not await answers(await made.dial())
            kept[0][1].close()
            await until_open(connections, 2)
            assert await answers(await made.dial())
        assert connections.open_connections == 0

    asyncio.run(main())


def test_all_services_together_have_a_share_too() -> None:
    async def main() -> None:
        connections = ConnectionLimit(3)
        async with ProxyHarness(connections) as one, ProxyHarness(connections) as other:
            kept = [await made.dial() for made in (one, one, other)]
            assert all([await answers(each) for each in kept])
            assert not await answers(await one.dial())
            assert not await answers(await other.dial())

    asyncio.run(main())


def test_half_a_connection_that_is_silent_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "_HALF_CLOSED_IDLE_SECONDS", 0.05)

    async def main() -> None:
        connections = ConnectionLimit()
        async with ProxyHarness(connections, handler=silent) as made:
            reader, writer = await made.dial()
            await until_open(connections, 1)
            writer.write_eof()
            await until_open(connections, 0)
            assert await reader.read() == b""

    asyncio.run(main())


def test_a_peer_that_ends_its_half_still_hears_the_rest() -> None:
    async def main() -> None:
        async with ProxyHarness(ConnectionLimit()) as made:
            reader, writer = await made.dial()
            writer.write(b"all of it" * 1000)
            writer.write_eof()
            assert await reader.read() == b"all of it" * 1000

    asyncio.run(main())
