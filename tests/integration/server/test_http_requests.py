"""How a real server handles unusual requests and WebSocket handshakes from a socket."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.live_server import until
from tests.integration.server.raw_http import (
    BODY,
    CHUNK,
    CHUNKED,
    GET,
    H2C,
    HOST,
    LENGTH,
    LOGIN,
    PING,
    TIMEOUT,
    WEBSOCKET,
    LimitedServer,
    RawConnection,
)
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedServer]:
    with LimitedServer(tmp_path_factory.mktemp("wire") / "data") as started:
        yield started.start()
        assert started.is_calm(), started.complaints()


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
    def test_what_is_not_a_request_is_a_400_with_a_trace_id(self, server: LimitedServer, data: bytes) -> None:
        with RawConnection(server, data) as wire:
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
    def test_a_body_whose_length_can_be_read_in_two_ways_is_refused(self, server: LimitedServer, fields: bytes) -> None:
        with RawConnection(server, LOGIN + fields + b"\r\n" + PING) as wire:
            assert wire.answer().status == 400
            assert wire.is_closed()

    def test_a_refused_head_never_reaches_the_application(self, server: LimitedServer) -> None:
        client = server.client()
        path = f"/api/custom/workloads/{client.create('true', name='stays')}"
        delete = f"DELETE {path} HTTP/1.1\r\n".encode() + HOST + server.signed
        for bad in (b"Transfer-Encoding: xchunked\r\n", HOST, b"Content-Length: 0\r\n" * 2):
            assert server.ask(delete + bad + b"\r\n").status == 400
        assert client.ask("GET", path).status_code == 200
        assert server.ask(delete + b"\r\n").status == 204
        client.close()

    def test_a_trailer_is_not_a_header(self, server: LimitedServer) -> None:
        me = b"GET /api/stoker/v1/me HTTP/1.1\r\n" + HOST + CHUNKED + b"0\r\n" + server.signed + b"\r\n"
        assert server.ask(me).status == 401

    def test_other_forms_of_a_request(self, server: LimitedServer) -> None:
        absolute = b"GET http://localhost/healthz HTTP/1.1\r\n" + HOST + b"\r\n"
        assert server.ask(absolute).status == 200
        assert server.ask(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n").status == 404
        assert server.ask(b"OPTIONS /healthz HTTP/1.1\r\n" + HOST + b"\r\n").status == 405
        assert server.ask(b"\r\n\r\n" + PING).status == 200
        assert server.ask(b"GET /x%00%0d%0aSet-Cookie:%20a HTTP/1.1\r\n" + HOST + b"\r\n").status == 404

    def test_http_1_0_is_answered_and_closed(self, server: LimitedServer) -> None:
        for data in (b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"):
            with RawConnection(server, data) as wire:
                answer = wire.answer()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
                assert wire.is_closed()

    def test_a_client_that_asks_first_is_told_to_go_on(self, server: LimitedServer) -> None:
        with RawConnection(server, server.post + b"Expect: 100-continue\r\n" + LENGTH) as wire:
            assert wire.answer().status == 100
            wire.send(BODY)
            assert wire.answer().status == 200

    def test_a_client_that_asks_first_is_told_at_once_if_it_need_not_go_on(self, server: LimitedServer) -> None:
        with RawConnection(server, LOGIN + b"Expect: 100-continue\r\nContent-Length: 9999999\r\n\r\n") as wire:
            answer = wire.answer()
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert wire.is_closed()

    def test_a_wish_for_http_2_is_not_granted_and_does_no_harm(self, server: LimitedServer) -> None:
        post = server.post + H2C + LENGTH
        with RawConnection(server, GET + H2C + b"\r\n" + PING) as wire:
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
def running(server: LimitedServer) -> Iterator[str]:
    """A workload that runs meanwhile."""
    client = server.client()
    name = client.create("sleep 60", name="sleeper")
    client.until(name, lambda found: found["phase"] == "Running")
    try:
        yield name
    finally:
        client.send("DELETE", f"/api/custom/workloads/{name}")
        client.close()


def terminal_of(server: LimitedServer, name: str, query: str) -> ClientConnection:
    path = f"/api/stoker/v1/workloads/{name}/exec?{query}&tty=false"
    signed = {"Authorization": f"Bearer {server.key.decode()}"}
    return connect(f"ws://localhost:{server.port}{path}", additional_headers=signed)


class TestWebSockets:
    def test_a_terminal_is_opened(self, server: LimitedServer) -> None:
        with running(server) as name, terminal_of(server, name, "command=echo&command=hello") as terminal:
            assert terminal.response is not None
            assert len(terminal.response.headers["x-trace-id"]) == 32
            time.sleep(TIMEOUT + 0.2)  # a socket is no request: it may be open as long as it likes
            assert list(terminal) == [b"hello\n", '{"exit":0}']
        line = f"WEBSOCKET /api/stoker/v1/workloads/{name}/exec 101"
        assert until(server.complaints, lambda text: line in text, 5).count(line) == 1

    def test_text_that_is_none_closes_the_terminal_and_is_not_our_failure(self, server: LimitedServer) -> None:
        with running(server) as name, terminal_of(server, name, "command=cat") as terminal:
            terminal.send(b"\xff", text=True)
            with pytest.raises(ConnectionClosed) as closed:
                terminal.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1007
        assert "Traceback" not in server.complaints()

    def test_where_there_is_none_is_a_404(self, server: LimitedServer) -> None:
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
        self, server: LimitedServer, name: str, query: str, status: int, field: str
    ) -> None:
        get = GET.replace(b"/healthz", f"/api/stoker/v1/workloads/{name}/exec?{query}".encode())
        answer = server.ask(get + b"Authorization: Bearer " + server.key + b"\r\n" + WEBSOCKET + b"\r\n")
        assert answer.status == status
        assert answer.json()["error"]["field"] == field

    def test_a_command_that_is_too_long_is_told_what_to_do(self, tmp_path: Path) -> None:
        path = b"/api/stoker/v1/workloads/x/exec?command=" + b"a" * 9000
        with LimitedServer(tmp_path / "data", "--header-limit-bytes", "32768") as server:
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
    def test_a_bad_handshake_is_a_400_and_leaves_nothing_open(self, server: LimitedServer, head: bytes) -> None:
        with RawConnection(server, head + b"\r\nhello") as wire:
            answer = wire.answer()
            assert wire.is_closed()
        assert answer.status == 400
        assert answer.message().startswith("This WebSocket cannot be opened: ")
