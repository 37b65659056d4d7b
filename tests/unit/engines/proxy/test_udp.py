"""Datagrams of each client go to one replica and its answers back, and nobody is remembered for ever."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.conftest import LoopRun

from stoker.engines.proxy import udp
from stoker.engines.proxy.tcp import ConnectionLimit, ReplicaAddress
from stoker.engines.proxy.udp import UdpProxy


class Echo(asyncio.DatagramProtocol):
    """Answers with its own name, a colon and what it got."""

    def __init__(self, name: str) -> None:
        self._name = name.encode()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # pyrefly: ignore[bad-override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(self._name + b":" + data, addr)


def at(*ports: int) -> list[ReplicaAddress]:
    return [ReplicaAddress("127.0.0.1", port) for port in ports]


@contextlib.asynccontextmanager
async def replica(name: str) -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Echo(name), local_addr=("127.0.0.1", 0))
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        transport.close()


@contextlib.contextmanager
def client(port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
        made.connect(("127.0.0.1", port))
        yield made


async def ask(made: socket.socket, data: bytes) -> bytes:
    made.send(data)
    async with asyncio.timeout(10):
        return await asyncio.get_running_loop().sock_recv(made, 65_535)


def test_each_client_talks_to_one_replica_and_the_replicas_take_turns(loop_run: LoopRun) -> None:
    async def main() -> None:
        async with replica("a") as one, replica("b") as two:
            connections = ConnectionLimit()
            forwarder = UdpProxy("127.0.0.1", lambda: at(one, two), connections)
            await forwarder.open([0])
            with client(forwarder.port) as first, client(forwarder.port) as second:
                heard = {await ask(first, b"1"), await ask(second, b"1")}
                assert heard == {b"a:1", b"b:1"}
                same = await ask(first, b"2")
                assert {same, await ask(first, b"2")} == {same}
                largest = b"x" * 60_000
                assert (await ask(second, largest))[2:] == largest
                assert connections.open_connections == 2
            await forwarder.close()
            assert connections.open_connections == 0

    loop_run(main())


def test_a_replica_that_has_gone_is_replaced_by_another(loop_run: LoopRun) -> None:
    async def main() -> None:
        async with replica("b") as there:
            ports: list[int] = []
            forwarder = UdpProxy("127.0.0.1", lambda: at(*ports))
            await forwarder.open([0])
            with client(forwarder.port) as made:
                async with replica("a") as gone:
                    ports[:] = [gone]
                    assert await ask(made, b"1") == b"a:1"
                ports[:] = [there]
                answer = b""
                while not answer:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            answer = await ask(made, b"2")
                assert answer == b"b:2"
            await forwarder.close()

    loop_run(main())


def test_the_client_that_was_silent_longest_makes_room(loop_run: LoopRun) -> None:
    async def main() -> None:
        async with replica("a") as port:
            connections = ConnectionLimit()
            forwarder = UdpProxy("127.0.0.1", lambda: at(port), connections, most=3)
            await forwarder.open([0])
            with contextlib.ExitStack() as stack:
                for _ in range(10):
                    assert await ask(stack.enter_context(client(forwarder.port)), b"1") == b"a:1"
                    assert connections.open_connections <= 3
            await forwarder.close()

    loop_run(main())


def test_who_is_silent_is_forgotten(loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(udp, "CLIENT_IDLE_SECONDS", 0.05)

    async def main() -> None:
        async with replica("a") as port:
            connections = ConnectionLimit()
            forwarder = UdpProxy("127.0.0.1", lambda: at(port), connections)
            await forwarder.open([0])
            with client(forwarder.port) as made:
                await ask(made, b"1")
                async with asyncio.timeout(10):
                    while connections.open_connections:
                        await asyncio.sleep(0.01)
            await forwarder.close()

    loop_run(main())


def test_nothing_is_forwarded_while_nothing_is_up(loop_run: LoopRun) -> None:
    async def main() -> None:
        connections = ConnectionLimit()
        forwarder = UdpProxy("127.0.0.1", list, connections)
        await forwarder.open([0])
        with client(forwarder.port) as made:
            made.send(b"1")
            await asyncio.sleep(0)
        await forwarder.close()
        assert connections.open_connections == 0

    loop_run(main())
