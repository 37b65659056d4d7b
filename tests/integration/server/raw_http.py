"""A server with small limits, and raw connections on which a test sends any bytes."""

import contextlib
import http.client
import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil
from msgspec import Struct
from tests.integration.live_server import LiveServer, new_workload

HEAD_LIMIT = 4096
CONNECTIONS = 20
TIMEOUT = 1.0
SLACK = 10.0
"""A busy machine is later than it should be."""

MEMORY = 24 * 2**20
HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
PING = GET + b"\r\n"
LOGIN = b"POST /api/stoker/v1/login HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
BODY = msgspec.json.encode(new_workload("true"))
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
WEBSOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


class LimitedServer(LiveServer):
    """A server with small limits, or with those of the flags."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        super().__init__(data_dir)
        self._options += [
            *("--header-limit-bytes", str(HEAD_LIMIT), "--connection-limit", str(CONNECTIONS)),
            *("--request-timeout-seconds", f"{TIMEOUT:g}", "--log-level", "info", *flags),
        ]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def key(self) -> bytes:
        return (self.data_dir / "admin.key").read_bytes().strip()

    @property
    def signed(self) -> bytes:
        return b"Authorization: Bearer " + self.key + b"\r\n"

    @property
    def post(self) -> bytes:
        """The begin of a request that is answered with 200 if BODY is its body, with 400 if anything is missing."""
        return b"POST /api/custom/workloads?dryRun=true HTTP/1.1\r\n" + HOST + self.signed

    def ask(self, data: bytes) -> "RawResponse":
        with RawConnection(self, data) as wire:
            return wire.answer()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def in_flight(self) -> float:
        """Requests under way, but for the one that asks."""
        text = self.ask(b"GET /metrics HTTP/1.1\r\n" + HOST + self.signed + b"\r\n").body.decode()
        (line,) = (line for line in text.splitlines() if line.startswith("stoker_http_requests_in_flight "))
        return float(line.split()[1]) - 1

    def memory(self) -> int:
        return psutil.Process(self.pid).memory_info().rss

    def is_calm(self) -> bool:
        """Whether it answers, and has met nothing that it did not expect."""
        return self.ask(PING).status == 200 and not any(
            word in self.complaints() for word in ("Traceback", "Exception", '"error"', " ERROR ")
        )


class RawResponse(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def message(self) -> str:
        """The words of the native family; the trace id in it is that of the header."""
        problem = self.json()["error"]
        assert problem["traceId"] == self.headers["x-trace-id"]
        return problem["message"]


class RawConnection:
    """A connection on which any bytes may be sent."""

    def __init__(self, server: LimitedServer, data: bytes = b"", connected: socket.socket | None = None) -> None:
        self.socket = connected or socket.create_connection(("127.0.0.1", server.port))
        self.socket.settimeout(5)
        self._file = self.socket.makefile("rb")
        self.send(data)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> RawResponse:
        """The next answer; what comes after it is not touched."""
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {name.lower(): value for name, value in http.client.parse_headers(self._file).items()}
        body = self._file.read(int(headers.get("content-length", "0")))
        return RawResponse(int(line.split()[1]), headers, body)

    def answers(self) -> Iterator[RawResponse]:
        """All that come until the server closes."""
        while self._file.peek(1):
            yield self.answer()

    def is_closed(self) -> bool:
        """Whether the server has nothing more to say; waits for it."""
        try:
            return self._file.read() == b""
        except ConnectionError:
            return True

    def hung_up(self) -> None:
        """Waits until the server has hung up, whatever it says before."""
        with contextlib.suppress(ConnectionError):
            self._file.read()

    def rest(self) -> bytes:
        """All that comes until the server closes."""
        return self._file.read()

    def reset(self) -> None:
        """Go away without a word."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def padded(size: int, path: bytes = b"/healthz") -> bytes:
    """The whole head of a request, this many bytes long."""
    begin, end = b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"X-Padding: ", b"\r\n\r\n"
    return begin + b"a" * (size - len(begin) - len(end)) + end
