"""What a real server does with what comes over a socket, well formed or not."""

import contextlib
import http.client
import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import psutil
import pytest
from msgspec import Struct
from tests.engine.live import LiveServer, new_workload, until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from stoker.server.protocol import LINGER_SECONDS

HEAD_LIMIT = 4096
CONNECTIONS = 20
TIMEOUT = 1.0
SLACK = 2.0
"""A busy machine is later than it should be."""

MEMORY = 24 * 2**20
HOST = b"Host: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST
PING = GET + b"\r\n"
LOGIN = b"POST /api/stoker/v1/login HTTP/1.1\r\n" + HOST
BODY = msgspec.json.encode(new_workload("true"))
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
CHUNK = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
WEBSOCKET = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"


class WireServer(LiveServer):
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

    def ask(self, data: bytes) -> "Answer":
        with Wire(self, data) as wire:
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


class Answer(Struct, frozen=True):
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


class Wire:
    """A connection on which any bytes may be sent."""

    def __init__(self, server: WireServer, data: bytes = b"", connected: socket.socket | None = None) -> None:
        self.socket = connected or socket.create_connection(("127.0.0.1", server.port))
        self.socket.settimeout(5)
        self._file = self.socket.makefile("rb")
        self.send(data)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """The next answer; what comes after it is not touched."""
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {name.lower(): value for name, value in http.client.parse_headers(self._file).items()}
        body = self._file.read(int(headers.get("content-length", "0")))
        return Answer(int(line.split()[1]), headers, body)

    def answers(self) -> Iterator[Answer]:
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


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireServer]:
    with WireServer(tmp_path_factory.mktemp("wire") / "data") as started:
        yield started.start()
        assert started.is_calm(), started.complaints()


def padded(size: int, path: bytes = b"/healthz") -> bytes:
    """The whole head of a request, this many bytes long."""
    begin, end = b"GET " + path + b" HTTP/1.1\r\n" + HOST + b"X-Padding: ", b"\r\n\r\n"
    return begin + b"a" * (size - len(begin) - len(end)) + end


class TestHead:
    def test_the_limit_is_exact(self, server: WireServer) -> None:
        with Wire(server, padded(HEAD_LIMIT)) as wire:
            assert wire.answer().status == 200
            wire.send(padded(HEAD_LIMIT))
            assert wire.answer().status == 200
            wire.send(padded(HEAD_LIMIT + 1))
            assert wire.answer().status == 431
            assert wire.is_closed()

    def test_the_limit_counts_what_the_parser_throws_away(self, server: WireServer) -> None:
        assert server.ask(b"\r\n" * 10 + GET + b"X: " + b" " * HEAD_LIMIT + b"\r\n\r\n").status == 431

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/api/custom/workloads", {"errorCode": "Stoker.00002", "errorMessage": "{message}"}),
            ("/api/workloads", {"code": 431, "message": "{message}", "traceId": "{trace}"}),
            ("/api/v1/gpu-aggregation/clusters", {"code": 431, "message": "{message}", "error": "headers_too_large"}),
            ("/api/v1/workloads", {"code": 431, "message": "{message}"}),
            (
                "/api/stoker/v1/me?token=x",
                {
                    "error": {
                        "code": "headers_too_large",
                        "message": "{message}",
                        "hint": "",
                        "field": "",
                        "traceId": "{trace}",
                    }
                },
            ),
        ],
    )
    def test_a_head_too_large_is_refused_in_the_words_of_the_family(
        self, server: WireServer, path: str, body: dict[str, Any]
    ) -> None:
        with Wire(server, padded(HEAD_LIMIT * 10, path.encode())) as wire:
            answer = wire.answer()
            assert wire.is_closed()
        assert answer.status == 431
        assert answer.headers["connection"] == "close"
        assert answer.headers["content-type"] == "application/json"
        text = msgspec.json.encode(body).decode()
        text = text.replace("{message}", f"The request's head is larger than {HEAD_LIMIT} bytes.")
        assert answer.body.decode() == text.replace("{trace}", answer.headers["x-trace-id"])

    def test_a_head_too_large_in_pieces_is_refused(self, server: WireServer) -> None:
        head = padded(HEAD_LIMIT + 1, b"/api/workloads")
        with Wire(server) as wire:
            for start in range(0, len(head), 1000):
                wire.send(head[start : start + 1000])
                time.sleep(0.01)
            answer = wire.answer()
        assert (answer.status, answer.json()["code"]) == (431, 431)

    def test_a_refusal_has_the_callers_trace_id(self, server: WireServer) -> None:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        sent = f"Traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n".encode()
        answer = server.ask(GET + sent + b"X: " + b"a" * HEAD_LIMIT)
        assert (answer.status, answer.headers["x-trace-id"]) == (431, trace)

    def test_a_client_that_is_still_sending_sees_the_refusal(self, server: WireServer) -> None:
        with Wire(server, padded(4 * 2**20)) as wire:
            assert wire.answer().status == 431

    @pytest.mark.parametrize(
        "begin",
        [
            b"GET /",
            GET + b"X: ",
            b"",
            LOGIN + CHUNKED + b"1\r\n{\r\n0\r\nX-Trailer: ",
            LOGIN + CHUNKED + b"1;extension=",
        ],
        ids=["url", "header", "lines", "trailer", "extension"],
    )
    def test_what_never_ends_is_cut_off_and_not_kept(self, server: WireServer, begin: bytes) -> None:
        before = server.memory()
        more = b"a" * 2**18 if begin else b"\r\n" * 2**17
        begun = time.monotonic()
        with Wire(server, begin) as wire:
            while time.monotonic() - begun < 0.3:
                wire.send(more)
            assert wire.answer().status == 431
            with contextlib.suppress(ConnectionError):
                while begin == b"GET /" and time.monotonic() - begun < 5:
                    wire.send(more)
        assert time.monotonic() - begun < LINGER_SECONDS + SLACK
        assert server.memory() - before < MEMORY

    def test_a_body_is_not_part_of_the_head(self, server: WireServer) -> None:
        large = BODY + b" " * 3 * HEAD_LIMIT
        head = server.post + b"X: " + b"a" * (HEAD_LIMIT - 300) + b"\r\n"
        assert server.ask(head + b"Content-Length: %d\r\n\r\n" % len(large) + large).status == 200
        with Wire(server, head + b"Content-Length: %d\r\n\r\n" % len(large)) as wire:
            for start in range(0, len(large), 1000):
                wire.send(large[start : start + 1000])
            assert wire.answer().status == 200

    def test_a_long_url_is_refused(self, server: WireServer) -> None:
        assert server.ask(b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n" + HOST + b"\r\n").status == 404
        assert server.ask(b"GET /" + b"a" * HEAD_LIMIT + b" HTTP/1.1\r\n" + HOST + b"\r\n").status == 431


class TestManyRequests:
    def test_one_after_the_other_on_one_connection(self, server: WireServer) -> None:
        large = b"x" * 3_000_000
        with Wire(server) as wire:
            for data, status in (
                (PING, 200),
                (b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n", 404),
                (b"GET /api/custom/workloads HTTP/1.1\r\n" + HOST + b"\r\n", 401),
                (LOGIN + b"Content-Length: 1\r\n\r\n{", 400),
                (LOGIN + b"Content-Length: %d\r\n\r\n" % len(large) + large, 413),
                (b"DELETE /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 405),
                (PING, 200),
            ):
                wire.send(data)
                assert wire.answer().status == status

    def test_pipelined_requests_are_answered_in_order(self, server: WireServer) -> None:
        missing = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        posts = server.post + LENGTH + BODY + PING + missing + server.post + CHUNKED + CHUNK
        with Wire(server, posts + GET + b"Connection: close\r\n\r\n") as wire:
            assert [answer.status for answer in wire.answers()] == [200, 200, 404, 200, 200]

    @pytest.mark.parametrize(
        ("bad", "status"),
        [
            (b"\x00\x01\x02\r\n\r\n", 400),
            (padded(3 * HEAD_LIMIT), 431),
            (GET + WEBSOCKET + b"\r\n", 400),
            (LOGIN + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ],
        ids=["garbage", "large", "websocket", "smuggled"],
    )
    def test_a_refusal_waits_for_the_answers_before_it(self, server: WireServer, bad: bytes, status: int) -> None:
        missing = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        with Wire(server, server.post + LENGTH + BODY + missing + bad + PING) as wire:
            assert [answer.status for answer in wire.answers()] == [200, 404, status]

    def test_a_bad_body_does_not_end_up_inside_another_answer(self, server: WireServer) -> None:
        with Wire(server, server.post + LENGTH + BODY + server.post + CHUNKED + b"zz\r\n") as wire:
            assert wire.is_closed()

    def test_a_flood_of_requests_on_one_connection_is_refused(self, server: WireServer) -> None:
        before = server.memory()
        with Wire(server, PING * 5000) as wire:
            statuses = [answer.status for answer in wire.answers()]
        assert statuses == [200] * (len(statuses) - 1) + [429]
        assert server.memory() - before < MEMORY


class TestTime:
    def test_a_head_that_does_not_come_is_not_waited_for(self, server: WireServer) -> None:
        begun = time.monotonic()
        with Wire(server, GET) as slow, Wire(server) as silent, Wire(server, PING) as second:
            assert second.answer().status == 200
            second.send(b"G")
            with Wire(server, PING) as blank, contextlib.suppress(ConnectionError):
                assert blank.answer().status == 200
                for wire in (slow, blank) * 4:  # a byte now and then does not help
                    time.sleep(0.1)
                    wire.send(b"x" if wire is slow else b"\r\n")
                assert slow.is_closed()
                assert silent.is_closed()
                assert second.is_closed()
                assert blank.is_closed()
        assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK

    def test_a_body_that_does_not_come_is_a_503_in_time_and_then_the_end(self, server: WireServer) -> None:
        begun = time.monotonic()
        with Wire(server, LOGIN + b"Content-Length: 40\r\n\r\n{") as wire:
            answer = wire.answer()
            assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.message() == "The request took longer than 1 s and was given up."
            assert wire.is_closed()
        assert time.monotonic() - begun < 2 * TIMEOUT + SLACK

    def test_the_rest_of_a_body_that_nobody_wanted_may_come_late_but_not_for_ever(self, server: WireServer) -> None:
        refused = b"POST /api/custom/workloads HTTP/1.1\r\n" + HOST + LENGTH
        with Wire(server, refused) as late, Wire(server, refused) as never:
            assert (late.answer().status, never.answer().status) == (401, 401)
            begun = time.monotonic()
            late.send(BODY + PING)
            assert late.answer().status == 200
            assert never.is_closed()
            assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK

    def test_an_answer_that_is_not_read_is_given_up(self, server: WireServer) -> None:
        asked = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
        size = len(server.ask(asked).body)
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.connect(("127.0.0.1", server.port))
        with Wire(server, asked * 90, connected):
            time.sleep(TIMEOUT + 0.5)
            got = 0
            with contextlib.suppress(ConnectionError):
                while part := connected.recv(2**20):
                    got += len(part)
        assert got < 90 * size


class TestConnections:
    def test_one_too_many_is_told_so_and_the_next_is_served_when_another_has_left(self, server: WireServer) -> None:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(server, PING)) for _ in range(CONNECTIONS)]
            assert {wire.answer().status for wire in wires} == {200}
            refused = [stack.enter_context(Wire(server)) for _ in range(3)]  # they have not even asked
            for wire in refused:
                answer = wire.answer()
                assert answer.status == 503
                assert answer.message() == "All 20 connections of this server are taken. Try again in a second."
                assert (answer.headers["retry-after"], answer.headers["connection"]) == ("1", "close")
                assert wire.is_closed()
            assert server.ask(PING).status == 503
            wires[0].send(PING)
            assert wires[0].answer().status == 200
            wires[1].close()
            assert until(lambda: server.ask(PING).status, lambda status: status == 200, 0.8 * LINGER_SECONDS) == 200

    def test_one_address_cannot_take_all(self, tmp_path: Path) -> None:
        with WireServer(tmp_path / "data", "--peer-connection-limit", "5") as few, contextlib.ExitStack() as stack:
            few.start()
            wires = [stack.enter_context(Wire(few, PING)) for _ in range(5)]
            assert {wire.answer().status for wire in wires} == {200}
            refused = few.ask(PING)
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert "5 connections" in refused.message()
            other = socket.create_connection(("127.0.0.1", few.port), source_address=("127.0.0.2", 0))
            assert stack.enter_context(Wire(few, PING, other)).answer().status == 200
            wires[0].close()
            assert until(lambda: few.ask(PING).status, lambda status: status == 200, 5) == 200

    def test_a_client_that_goes_away_is_nobodys_trouble(self, server: WireServer) -> None:
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        large = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
        for data in (GET, LOGIN + b"Content-Length: 40\r\n\r\n{", LOGIN + CHUNKED, large * 9, events, GET + WEBSOCKET):
            for leave in (Wire.close, Wire.reset):
                wire = Wire(server, data)
                time.sleep(0.02)
                leave(wire)
        assert until(server.in_flight, lambda count: count == 0, 2) == 0
        assert server.is_calm()

    def test_a_stream_ends_with_its_client_even_if_that_has_asked_for_more(self, server: WireServer) -> None:
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        with Wire(server, events + PING) as wire:
            assert wire.answer().status == 200
            assert server.in_flight() == 1
            wire.reset()
        client = server.client()
        client.create("true")  # something to tell, which nobody hears
        client.close()
        assert until(server.in_flight, lambda count: count == 0, 5) == 0


class TestStrangeRequests:
    @pytest.mark.parametrize(
        "data",
        [
            b"\x00\x01\x02\x03\r\n\r\n",
            b"hello\r\n\r\n",
            b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + b"x" * 50,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET /healthz HTTP/3.0\r\n" + HOST + b"\r\n",
            b"GET /healthz\r\n\r\n",
            b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
            b"GET /he\x01althz HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET /he\x7falthz HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET /he\talthz HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET /h\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n",
            GET + b"X: a\x00b\r\n\r\n",
            GET + b"X : a\r\n\r\n",
            GET + b"X: a\r\n folded\r\n\r\n",
            GET + b"no colon\r\n\r\n",
            b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
            b"GET /healthz HTTP/1.1\r\n\r\n",
            GET + HOST + b"\r\n",
        ],
    )
    def test_what_is_not_a_request_is_a_400_with_a_trace_id(self, server: WireServer, data: bytes) -> None:
        with Wire(server, data) as wire:
            answer = wire.answer()
            assert wire.is_closed()
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert len(answer.headers["x-trace-id"]) == 32
        assert answer.message().endswith(".")

    @pytest.mark.parametrize(
        "fields",
        [
            b"Content-Length: 40\r\nContent-Length: 40\r\n",
            b"Content-Length: 40\r\nContent-Length: 0\r\n",
            b"Content-Length: 40, 40\r\n",
            b"Content-Length: +40\r\n",
            b"Content-Length: 0x28\r\n",
            b"Content-Length: -1\r\n",
            b"Content-Length: 99999999999999999999999\r\n",
            b"Content-Length: 40\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked\r\nContent-Length: 40\r\n",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            b"Transfer-Encoding: chunked, identity\r\n",
            b"Transfer-Encoding: gzip, chunked\r\n",
            b"Transfer-Encoding: xchunked\r\n",
            b"Transfer-Encoding: identity\r\n",
            b"Transfer-Encoding : chunked\r\n",
            b"Transfer-Encoding:\r\n chunked\r\n",
            b"Transfer-Encoding: \x0bchunked\r\n",
            b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n1 \r\n{\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n1\n{\n",
            b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}}\r\n",
        ],
    )
    def test_a_body_whose_length_can_be_read_in_two_ways_is_refused(self, server: WireServer, fields: bytes) -> None:
        with Wire(server, LOGIN + fields + b"\r\n" + PING) as wire:
            assert wire.answer().status == 400
            assert wire.is_closed()

    def test_a_refused_head_never_reaches_the_application(self, server: WireServer) -> None:
        client = server.client()
        path = f"/api/custom/workloads/{client.create('true', name='stays')}"
        delete = f"DELETE {path} HTTP/1.1\r\n".encode() + HOST + server.signed
        for bad in (b"Transfer-Encoding: xchunked\r\n", HOST, b"Content-Length: 0\r\n" * 2):
            assert server.ask(delete + bad + b"\r\n").status == 400
        assert client.ask("GET", path).status_code == 200
        assert server.ask(delete + b"\r\n").status == 204
        client.close()

    def test_a_trailer_is_not_a_header(self, server: WireServer) -> None:
        me = b"GET /api/stoker/v1/me HTTP/1.1\r\n" + HOST + CHUNKED + b"0\r\n" + server.signed + b"\r\n"
        assert server.ask(me).status == 401

    def test_other_forms_of_a_request(self, server: WireServer) -> None:
        absolute = b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n"
        assert server.ask(absolute).status == 200
        assert server.ask(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n").status == 404
        assert server.ask(b"OPTIONS /healthz HTTP/1.1\r\n" + HOST + b"\r\n").status == 405
        assert server.ask(b"\r\n\r\n" + PING).status == 200
        assert server.ask(b"GET /x%00%0d%0aSet-Cookie:%20a HTTP/1.1\r\n" + HOST + b"\r\n").status == 404

    def test_http_1_0_is_answered_and_closed(self, server: WireServer) -> None:
        for data in (b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
            with Wire(server, data) as wire:
                answer = wire.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert wire.is_closed()

    def test_a_client_that_asks_first_is_told_to_go_on(self, server: WireServer) -> None:
        with Wire(server, server.post + b"Expect: 100-continue\r\n" + LENGTH) as wire:
            assert wire.answer().status == 100
            wire.send(BODY)
            assert wire.answer().status == 200

    def test_a_client_that_asks_first_is_told_at_once_if_it_need_not_go_on(self, server: WireServer) -> None:
        with Wire(server, LOGIN + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n") as wire:
            assert wire.answer().status == 413

    def test_a_wish_for_http_2_is_not_granted_and_does_no_harm(self, server: WireServer) -> None:
        post = server.post + H2C + LENGTH
        with Wire(server, GET + H2C + b"\r\n" + PING) as wire:
            assert [wire.answer().status for _ in range(2)] == [200, 200]
            wire.send(post)
            time.sleep(0.05)
            wire.send(BODY + post + BODY + server.post + H2C + CHUNKED + CHUNK)
            assert [wire.answer().status for _ in range(3)] == [200, 200, 200]
            wire.send(server.post + H2C + b"Content-Length: %d\r\n\r\n" % len(PING) + PING)
            assert wire.answer().status == 400
            wire.send(GET + b"Connection: close, upgrade\r\nUpgrade: foo\r\n\r\n")
            assert wire.answer().status == 200
            assert wire.is_closed()


@contextlib.contextmanager
def running(server: WireServer) -> Iterator[str]:
    """A workload that runs meanwhile."""
    client = server.client()
    name = client.create("sleep 60", name="sleeper")
    client.until(name, lambda found: found["phase"] == "Running")
    try:
        yield name
    finally:
        client.send("DELETE", f"/api/custom/workloads/{name}")
        client.close()


def terminal_of(server: WireServer, name: str, query: str) -> ClientConnection:
    path = f"/api/stoker/v1/workloads/{name}/exec?{query}&tty=false"
    signed = {"Authorization": f"Bearer {server.key.decode()}"}
    return connect(f"ws://localhost:{server.port}{path}", additional_headers=signed)


class TestWebSockets:
    def test_a_terminal_is_opened(self, server: WireServer) -> None:
        with running(server) as name, terminal_of(server, name, "command=echo&command=hello") as terminal:
            assert terminal.response is not None
            assert len(terminal.response.headers["x-trace-id"]) == 32
            time.sleep(TIMEOUT + 0.2)  # a socket is no request: it may be open as long as it likes
            assert list(terminal) == [b"hello\n", '{"exit":0}']
        line = f"WEBSOCKET /api/stoker/v1/workloads/{name}/exec 101"
        assert until(server.complaints, lambda text: line in text, 5).count(line) == 1

    def test_text_that_is_none_closes_the_terminal_and_is_not_our_failure(self, server: WireServer) -> None:
        with running(server) as name, terminal_of(server, name, "command=cat") as terminal:
            terminal.send(b"\xff", text=True)
            with pytest.raises(ConnectionClosed) as closed:
                terminal.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1007
        assert "Traceback" not in server.complaints()

    def test_where_there_is_none_is_a_404(self, server: WireServer) -> None:
        signed = {"Authorization": f"Bearer {server.key.decode()}"}
        with (
            pytest.raises(InvalidStatus) as refused,
            connect(f"ws://localhost:{server.port}/x", additional_headers=signed),
        ):
            pass
        response = refused.value.response
        assert response.status_code == 404
        assert msgspec.json.decode(response.body or b"")["error"]["traceId"] == response.headers["x-trace-id"]
        assert server.ask(GET + WEBSOCKET + b"\r\n").status == 401

    @pytest.mark.parametrize(
        ("name", "query", "status", "field"),
        [
            ("x", "command=echo&command=a%00b", 400, "query"),
            ("x", "command=id&pod=%FF", 400, "pod"),
            ("x", "command=id&tty=maybe", 400, "tty"),
            ("x", "command=id&columns=0", 400, "columns"),
            ("x", "command=", 400, "command"),
            ("%00", "command=id", 404, ""),
            ("%252F", "command=id", 404, ""),
        ],
    )
    def test_what_is_asked_of_a_terminal_is_read_as_of_any_request(
        self, server: WireServer, name: str, query: str, status: int, field: str
    ) -> None:
        get = GET.replace(b"/healthz", f"/api/stoker/v1/workloads/{name}/exec?{query}".encode())
        answer = server.ask(get + b"Authorization: Bearer " + server.key + b"\r\n" + WEBSOCKET + b"\r\n")
        assert answer.status == status
        assert answer.json()["error"]["field"] == field

    def test_a_command_that_is_too_long_is_told_what_to_do(self, tmp_path: Path) -> None:
        path = b"/api/stoker/v1/workloads/x/exec?command=" + b"a" * 9000
        with WireServer(tmp_path / "data", "--header-limit-bytes", "32768") as server:
            answer = server.start().ask(GET.replace(b"/healthz", path) + WEBSOCKET + b"\r\n")
        assert answer.status == 431
        assert answer.json()["error"]["hint"].endswith("stoker exec POD -- sh < script.sh")

    @pytest.mark.parametrize(
        "head",
        [
            b"POST /x HTTP/1.1\r\n" + HOST + WEBSOCKET,
            GET + WEBSOCKET + b"Content-Length: 5\r\n",
            GET + WEBSOCKET + b"Transfer-Encoding: chunked\r\n",
            GET + WEBSOCKET.replace(b"13", b"12"),
            GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n",
            GET + WEBSOCKET.replace(b"dGhl", b"\xff\xff\xff\xff"),
            GET + WEBSOCKET + b"a: b\r\n" * 200,
            GET + WEBSOCKET + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        ],
        ids=["post", "body", "chunked", "version", "keyless", "bad key", "many headers", "two keys"],
    )
    def test_a_bad_handshake_is_a_400_and_leaves_nothing_open(self, server: WireServer, head: bytes) -> None:
        with Wire(server, head + b"\r\nhello") as wire:
            answer = wire.answer()
            assert wire.is_closed()
        assert answer.status == 400
        assert answer.message().startswith("This WebSocket cannot be opened: ")
