"""What only a clock would show on a real connection: that no wait is without an end."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.conftest import LoopRun
from uvicorn.server import ServerState

from stoker.domain.access.peers import ProcessOwner, SocketAddress
from stoker.domain.settings.schema import Settings
from stoker.server.http_protocol import LimitedProtocol
from stoker.server.websocket_protocol import WebSocketProtocol

HOST = b"Host: localhost\r\n"
GET = b"GET / HTTP/1.1\r\n" + HOST
POST = b"POST / HTTP/1.1\r\n" + HOST


class RecordingTransport(asyncio.Transport):
    """Remembers what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += data

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    abort = close

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class NoProcesses:
    """A machine on which nothing runs."""

    async def owner_of_connection(self, far: SocketAddress, near: SocketAddress) -> ProcessOwner:
        return ProcessOwner.MACHINE

    async def owner_of_process(self, pid: int) -> ProcessOwner:
        return ProcessOwner.MACHINE


async def answer_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def connection(line: RecordingTransport, **limits: Any) -> LimitedProtocol:
    config = uvicorn.Config(
        answer_at_once, http=LimitedProtocol, ws=WebSocketProtocol, lifespan="off", log_config=None, access_log=False
    )
    made = LimitedProtocol(Settings(**limits), config, ServerState(), NoProcesses())
    made.connection_made(line)
    return made


def waits(made: LimitedProtocol) -> bool:
    """Whether something ends the connection if the client never says another word."""
    return made.timeout_keep_alive_task is not None or made._read_timer is not None


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"G"],
        [b"\r\n"],
        [GET],
        [GET + b"\r\n"],
        [GET + b"\r\n", b"\r\n"],
        [GET + b"\r\n", b"G"],
        [GET + b"\r\n" + GET],
        [POST + b"Content-Length: 4\r\n\r\n"],
        [POST + b"Content-Length: 4\r\n\r\n", b"ab"],
        [POST + b"Content-Length: 4\r\n\r\n", b"ab", b"cd"],
        [POST + b"Content-Length: 4\r\n\r\nabcd"],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"0\r\n", b"\r\n"],
        [GET + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", b"\r\n"],
        [GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"],
        [b"garbage\r\n\r\n"],
    ],
)
def test_every_silence_has_an_end(loop_run: LoopRun, pieces: list[bytes]) -> None:
    async def speak() -> None:
        made = connection(RecordingTransport())
        for piece in pieces:
            made.data_received(piece)
            await asyncio.sleep(0.01)
            assert waits(made), piece

    loop_run(speak())


def test_a_head_may_take_as_long_as_our_own_answer(loop_run: LoopRun) -> None:
    async def speak() -> None:
        line = RecordingTransport()
        made = connection(line, request_timeout_seconds=0.05)
        made.data_received(GET + b"\r\n" + GET)  # the second is not finished while the first is answered
        assert made._active_cycle is not None
        made._on_read_timeout()
        assert not line.closing
        await asyncio.sleep(0.01)
        assert line.written.startswith(b"HTTP/1.1 204 ")
        await asyncio.sleep(0.1)
        assert line.closing

    loop_run(speak())


def test_nothing_is_heard_after_a_refusal(loop_run: LoopRun) -> None:
    async def speak() -> None:
        line = RecordingTransport()
        made = connection(line)
        made.data_received(b"garbage\r\n\r\n")
        said = line.written
        made.data_received(GET + b"\r\n")
        await asyncio.sleep(0.01)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert line.written == said
        assert made not in made.connections

    loop_run(speak())


class NetworkTransport(RecordingTransport):
    """Comes from an address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (self._address, 40000) if name == "peername" else default


def test_the_addresses_of_an_ipv6_network_share_the_connections_of_one(loop_run: LoopRun) -> None:
    async def speak() -> None:
        state, lines = ServerState(), [NetworkTransport(f"2001:db8:0:1::{number}") for number in range(3)]
        config = uvicorn.Config(
            answer_at_once,
            http=LimitedProtocol,
            ws=WebSocketProtocol,
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        elsewhere = NetworkTransport("2001:db8:0:2::1")
        for line in (*lines, elsewhere):
            LimitedProtocol(Settings(peer_connection_limit=2), config, state, NoProcesses()).connection_made(line)
        assert [line.written[:13] for line in (*lines, elsewhere)] == [b"", b"", b"HTTP/1.1 429 ", b""]

    loop_run(speak())
