"""What goes wrong with a Prometheus is one error that says where, and never with which password."""

import base64
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.conftest import LoopRun

from stoker.domain.errors import ErrorCode, StokerError
from stoker.telemetry.prometheus.client import PrometheusClient, SeriesResult

EMPTY = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


class FixedServer:
    """A server with one answer, that keeps the heads of what it was asked."""

    def __init__(self, status: int, body: bytes, hang: bool = False) -> None:
        self.status = status
        self.body = body
        self.heads: list[str] = []
        self.may_answer = threading.Event()
        if not hang:
            self.may_answer.set()


@contextmanager
def serving(web: FixedServer) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            web.heads.append(f"{self.requestline}\n{self.headers}")
            self.rfile.read(int(self.headers["Content-Length"]))
            web.may_answer.wait()
            with contextlib.suppress(ConnectionError):
                self.send_response(web.status)
                self.send_header("Content-Length", str(len(web.body)))
                self.end_headers()
                self.wfile.write(web.body)

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            web.may_answer.set()
            server.shutdown()
            thread.join()


Client = Callable[[str], PrometheusClient]


def ask(loop_run: LoopRun, web: FixedServer, client: Client) -> list[SeriesResult]:
    async def main(prometheus: PrometheusClient) -> list[SeriesResult]:
        try:
            return await prometheus.query("up")
        finally:
            await prometheus.close()

    with serving(web) as address:
        return loop_run(main(client(address)))


def refused(loop_run: LoopRun, web: FixedServer, client: Client) -> str:
    with pytest.raises(StokerError) as error:
        ask(loop_run, web, client)
    assert error.value.code is ErrorCode.UNAVAILABLE
    return error.value.message


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>hello</html>", "no result of a query"),
        (200, b'{"status":"success","data":{"result":[{"metric":7}]}}', "no result of a query"),
        (400, b'{"status":"error","error":"bad query"}', "answered 400: bad query"),
        (502, b"", "no result of a query"),
        (302, b"{}", "answered 302"),
    ],
)
def test_an_answer_that_is_none_is_told(status: int, body: bytes, words: str, loop_run: LoopRun) -> None:
    message = refused(loop_run, FixedServer(status, body), lambda address: PrometheusClient(f"http://{address}"))
    assert message.startswith("Prometheus at http://127.0.0.1:")
    assert words in message


def test_one_that_hangs_is_given_up(loop_run: LoopRun) -> None:
    web = FixedServer(200, EMPTY, hang=True)
    message = refused(loop_run, web, lambda address: PrometheusClient(f"http://{address}", timeout_seconds=0.1))
    assert "within 0.1 s" in message


def test_one_that_says_too_much_is_not_listened_to(loop_run: LoopRun) -> None:
    web = FixedServer(200, b'{"status":"success","pad":"' + b"x" * 5000 + b'"}')
    message = refused(loop_run, web, lambda address: PrometheusClient(f"http://{address}", max_bytes=4096))
    assert "more than 4096 bytes" in message


def test_a_password_goes_to_the_server_and_nowhere_else(loop_run: LoopRun) -> None:
    web = FixedServer(401, b"no")
    message = refused(loop_run, web, lambda address: PrometheusClient(f"http://ada:hunter2@{address}/prom/"))
    assert "hunter2" not in message
    assert "/prom " in message
    assert base64.b64encode(b"ada:hunter2").decode() in web.heads[0]
    assert web.heads[0].startswith("POST /prom/api/v1/query HTTP/1.1")


def test_a_token_is_read_anew_each_time(loop_run: LoopRun, tmp_path: Path) -> None:
    file, web = tmp_path / "token", FixedServer(200, EMPTY)
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        assert ask(loop_run, web, lambda address: PrometheusClient(f"http://{address}", str(file))) == []
    assert ["Bearer first" in web.heads[0], "Bearer second" in web.heads[1]] == [True, True]


@pytest.mark.parametrize("content", [None, b"two\nlines", "tökn".encode()])
def test_a_token_that_is_none_is_told_by_its_file(content: bytes | None, loop_run: LoopRun, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    message = refused(
        loop_run, FixedServer(200, EMPTY), lambda address: PrometheusClient(f"http://{address}", str(file))
    )
    assert str(file) in message
    assert "two" not in message


def test_values_that_are_no_measurement_are_left_out() -> None:
    texts = ["1", "NaN", "-1", "+Inf", "x", "2.5"]
    found = SeriesResult({}, values=[(float(at), text) for at, text in enumerate(texts)])
    assert list(found.iter_samples()) == [(0, 1.0), (5000, 2.5)]


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert ask(loop_run, FixedServer(200, EMPTY), lambda address: PrometheusClient(f"http://{address}")) == []
