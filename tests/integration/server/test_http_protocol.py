"""How a real server handles well-formed and malformed bytes from a socket: limits and timeouts."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.live_server import until
from tests.integration.server.raw_http import (
    BODY,
    CHUNK,
    CHUNKED,
    CONNECTIONS,
    GET,
    HEAD_LIMIT,
    HOST,
    LENGTH,
    LOGIN,
    MEMORY,
    PING,
    SLACK,
    TIMEOUT,
    WEBSOCKET,
    LimitedServer,
    RawConnection,
    padded,
)

from stoker.server.http_protocol import LINGER_SECONDS


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedServer]:
    with LimitedServer(tmp_path_factory.mktemp("wire") / "data") as started:
        yield started.start()
        assert started.is_calm(), started.complaints()


class TestHead:
    def test_the_limit_is_exact(self, server: LimitedServer) -> None:
        with RawConnection(server, padded(HEAD_LIMIT)) as wire:
            assert wire.answer().status == 200
            wire.send(padded(HEAD_LIMIT))
            assert wire.answer().status == 200
            wire.send(padded(HEAD_LIMIT + 1))
            assert wire.answer().status == 431
            assert wire.is_closed()

    def test_the_limit_counts_what_the_parser_throws_away(self, server: LimitedServer) -> None:
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
        self, server: LimitedServer, path: str, body: dict[str, Any]
    ) -> None:
        with RawConnection(server, padded(HEAD_LIMIT * 10, path.encode())) as wire:
            answer = wire.answer()
            assert wire.is_closed()
        assert answer.status == 431
        assert (answer.headers["connection"], answer.headers["x-content-type-options"]) == ("close", "nosniff")
        assert answer.headers["content-type"] == "application/json"
        text = msgspec.json.encode(body).decode()
        text = text.replace("{message}", f"The request's head is larger than {HEAD_LIMIT} bytes.")
        assert answer.body.decode() == text.replace("{trace}", answer.headers["x-trace-id"])

    def test_a_head_too_large_in_pieces_is_refused(self, server: LimitedServer) -> None:
        head = padded(HEAD_LIMIT + 1, b"/api/workloads")
        with RawConnection(server) as wire:
            for start in range(0, len(head), 1000):
                wire.send(head[start : start + 1000])
                time.sleep(0.01)
            answer = wire.answer()
        assert (answer.status, answer.json()["code"]) == (431, 431)

    def test_a_refusal_has_the_callers_trace_id(self, server: LimitedServer) -> None:
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        sent = f"Traceparent: 00-{trace}-00f067aa0ba902b7-01\r\n".encode()
        answer = server.ask(GET + sent + b"X: " + b"a" * HEAD_LIMIT)
        assert (answer.status, answer.headers["x-trace-id"]) == (431, trace)

    def test_a_client_that_is_still_sending_sees_the_refusal(self, server: LimitedServer) -> None:
        with RawConnection(server, padded(4 * 2**20)) as wire:
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
    def test_what_never_ends_is_cut_off_and_not_kept(self, server: LimitedServer, begin: bytes) -> None:
        before = server.memory()
        more = b"a" * 2**18 if begin else b"\r\n" * 2**17
        begun = time.monotonic()
        with RawConnection(server, begin) as wire:
            while time.monotonic() - begun < 0.3:
                wire.send(more)
            assert wire.answer().status == 431
            with contextlib.suppress(ConnectionError):
                while begin == b"GET /" and time.monotonic() - begun < 5:
                    wire.send(more)
        assert time.monotonic() - begun < LINGER_SECONDS + SLACK
        assert server.memory() - before < MEMORY

    def test_a_body_is_not_part_of_the_head(self, server: LimitedServer) -> None:
        large = BODY + b" " * 3 * HEAD_LIMIT
        head = server.post + b"X: " + b"a" * (HEAD_LIMIT - 300) + b"\r\n"
        assert server.ask(head + b"Content-Length: %d\r\n\r\n" % len(large) + large).status == 200
        with RawConnection(server, head + b"Content-Length: %d\r\n\r\n" % len(large)) as wire:
            for start in range(0, len(large), 1000):
                wire.send(large[start : start + 1000])
            assert wire.answer().status == 200

    def test_a_long_url_is_refused(self, server: LimitedServer) -> None:
        assert server.ask(b"GET /" + b"a" * 2000 + b" HTTP/1.1\r\n" + HOST + b"\r\n").status == 404
        assert server.ask(b"GET /" + b"a" * HEAD_LIMIT + b" HTTP/1.1\r\n" + HOST + b"\r\n").status == 431


class TestManyRequests:
    def test_one_after_the_other_on_one_connection(self, server: LimitedServer) -> None:
        with RawConnection(server) as wire:
            for data, status in (
                (PING, 200),
                (b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n", 404),
                (b"GET /api/custom/workloads HTTP/1.1\r\n" + HOST + b"\r\n", 401),
                (LOGIN + b"Content-Length: 1\r\n\r\n{", 400),
                (b"DELETE /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 405),
                (PING, 200),
            ):
                wire.send(data)
                assert wire.answer().status == status

    def test_pipelined_requests_are_answered_in_order(self, server: LimitedServer) -> None:
        missing = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        posts = server.post + LENGTH + BODY + PING + missing + server.post + CHUNKED + CHUNK
        with RawConnection(server, posts + GET + b"Connection: close\r\n\r\n") as wire:
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
    def test_a_refusal_waits_for_the_answers_before_it(self, server: LimitedServer, bad: bytes, status: int) -> None:
        missing = b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n"
        with RawConnection(server, server.post + LENGTH + BODY + missing + bad + PING) as wire:
            assert [answer.status for answer in wire.answers()] == [200, 404, status]

    def test_a_bad_body_does_not_end_up_inside_another_answer(self, server: LimitedServer) -> None:
        with RawConnection(server, server.post + LENGTH + BODY + server.post + CHUNKED + b"zz\r\n") as wire:
            assert wire.is_closed()

    def test_a_flood_of_requests_on_one_connection_is_refused(self, server: LimitedServer) -> None:
        before = server.memory()
        with RawConnection(server, PING * 5000) as wire:
            statuses = [answer.status for answer in wire.answers()]
        assert statuses == [200] * (len(statuses) - 1) + [429]
        assert server.memory() - before < MEMORY


class TestTime:
    def test_a_head_that_does_not_come_is_not_waited_for(self, server: LimitedServer) -> None:
        begun = time.monotonic()
        with RawConnection(server, GET) as slow, RawConnection(server) as silent, RawConnection(server, PING) as second:
            assert second.answer().status == 200
            second.send(b"G")
            with RawConnection(server, PING) as blank, contextlib.suppress(ConnectionError):
                assert blank.answer().status == 200
                for wire in (slow, blank) * 4:  # a byte now and then does not help
                    time.sleep(0.1)
                    wire.send(b"x" if wire is slow else b"\r\n")
                assert slow.is_closed()
                assert silent.is_closed()
                assert second.is_closed()
                assert blank.is_closed()
        assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK

    def test_a_body_that_does_not_come_is_a_503_in_time_and_then_the_end(self, server: LimitedServer) -> None:
        begun = time.monotonic()
        with RawConnection(server, LOGIN + b"Content-Length: 40\r\n\r\n{") as wire:
            answer = wire.answer()
            assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.message() == "The request took longer than 1 s and was cancelled."
            assert wire.is_closed()
        assert time.monotonic() - begun < 2 * TIMEOUT + SLACK

    @pytest.mark.parametrize("rest", [b"", BODY[:9], BODY, BODY + PING], ids=["none", "part", "all", "and more"])
    def test_a_refusal_before_the_body_was_read_ends_the_connection(self, server: LimitedServer, rest: bytes) -> None:
        with RawConnection(server, b"POST /api/custom/workloads HTTP/1.1\r\n" + HOST + LENGTH) as wire:
            answer = wire.answer()
            assert (answer.status, answer.headers["connection"]) == (401, "close")
            wire.send(rest)
            assert wire.is_closed()

    def test_a_refusal_after_the_body_was_read_does_not(self, server: LimitedServer) -> None:
        refused = b"POST /api/custom/workloads HTTP/1.1\r\n" + HOST + LENGTH + BODY
        with RawConnection(server, refused + PING) as wire:
            answer = wire.answer()
            assert (answer.status, answer.headers.get("connection")) == (401, None)
            assert wire.answer().status == 200

    @pytest.mark.parametrize("length", ["declared", "chunked"])
    def test_a_client_that_still_sends_too_large_a_body_sees_why_and_that_it_is_over(
        self, server: LimitedServer, length: str
    ) -> None:
        large = b"x" * 3_000_000
        declared = b"Content-Length: %d\r\n\r\n" % len(large) + large
        chunked = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(large), large)
        with RawConnection(server, LOGIN + (declared if length == "declared" else chunked)) as wire:
            answer = wire.answer()
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert wire.is_closed()

    def test_an_answer_that_is_not_read_is_given_up(self, server: LimitedServer) -> None:
        asked = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
        size = len(server.ask(asked).body)
        connected = socket.socket()
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connected.connect(("127.0.0.1", server.port))
        with RawConnection(server, asked * 90, connected):
            time.sleep(TIMEOUT + 0.5)
            got = 0
            with contextlib.suppress(ConnectionError):
                while part := connected.recv(2**20):
                    got += len(part)
        assert got < 90 * size


class TestConnections:
    def test_one_too_many_is_told_so_and_the_next_is_served_when_another_has_left(self, server: LimitedServer) -> None:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(RawConnection(server, PING)) for _ in range(CONNECTIONS)]
            assert {wire.answer().status for wire in wires} == {200}
            refused = [stack.enter_context(RawConnection(server)) for _ in range(3)]  # they have not even asked
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
        with LimitedServer(tmp_path / "data", "--peer-connection-limit", "5") as few, contextlib.ExitStack() as stack:
            few.start()
            wires = [stack.enter_context(RawConnection(few, PING)) for _ in range(5)]
            assert {wire.answer().status for wire in wires} == {200}
            refused = few.ask(PING)
            assert (refused.status, refused.headers["retry-after"]) == (429, "1")
            assert "5 connections" in refused.message()
            other = socket.create_connection(("127.0.0.1", few.port), source_address=("127.0.0.2", 0))
            assert stack.enter_context(RawConnection(few, PING, other)).answer().status == 200
            wires[0].close()
            assert until(lambda: few.ask(PING).status, lambda status: status == 200, 5) == 200

    def test_a_client_that_goes_away_is_nobodys_trouble(self, server: LimitedServer) -> None:
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        large = b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n"
        for data in (GET, LOGIN + b"Content-Length: 40\r\n\r\n{", LOGIN + CHUNKED, large * 9, events, GET + WEBSOCKET):
            for leave in (RawConnection.close, RawConnection.reset):
                wire = RawConnection(server, data)
                time.sleep(0.02)
                leave(wire)
        assert until(server.in_flight, lambda count: count == 0) == 0
        assert server.is_calm()

    def test_a_stream_ends_with_its_client_even_if_that_has_asked_for_more(self, server: LimitedServer) -> None:
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        with RawConnection(server, events + PING) as wire:
            assert wire.answer().status == 200
            assert server.in_flight() == 1
            wire.reset()
        client = server.client()
        client.create("true")  # something to tell, which nobody hears
        client.close()
        assert until(server.in_flight, lambda count: count == 0, 5) == 0
