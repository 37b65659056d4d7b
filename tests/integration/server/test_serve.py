"""How a real server stops, speaks TLS, and what it writes into its log."""

import contextlib
import os
import pty
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.certificates import Certificate, certificate_of, openssl
from tests.integration.live_server import STOKER, until
from tests.integration.server.raw_http import (
    BODY,
    GET,
    HOST,
    LENGTH,
    LOGIN,
    PING,
    SLACK,
    TIMEOUT,
    WEBSOCKET,
    LimitedServer,
    RawConnection,
)

from stoker.server.http_protocol import RESPONSE_SHUTDOWN_SECONDS, STREAM_SHUTDOWN_SECONDS
from stoker.store.db.sqlite.connection import DATABASE_FILE

pytestmark = pytest.mark.slow

PATIENT = ("--request-timeout-seconds", "30")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return certificate_of("localhost", tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def tls_server(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedServer]:
    with LimitedServer(tmp_path_factory.mktemp("wire") / "data", *certificate.flags) as started:
        yield started.start()


@pytest.fixture
def trust(certificate: Certificate) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(certificate.cert))


@contextlib.contextmanager
def connected(server: LimitedServer, context: ssl.SSLContext) -> Iterator[RawConnection]:
    plain = socket.create_connection(("127.0.0.1", server.port))
    with RawConnection(server, connected=context.wrap_socket(plain, server_hostname="localhost")) as wire:
        yield wire


def test_a_view_that_cannot_be_read_keeps_no_server_from_starting(tmp_path: Path) -> None:
    with LimitedServer(tmp_path / "data") as server:
        server.start().kill()
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / DATABASE_FILE)) as database, database:
            database.execute("UPDATE live_view SET body = x'80' WHERE kind = 'overview'")
        server.start()
        assert httpx.get(f"{server.address}/api/clusters/overview").json()["data"]["totalNodes"] == 1


class TestStopping:
    def test_a_request_in_flight_is_finished(self, tmp_path: Path) -> None:
        server = LimitedServer(tmp_path / "data", *PATIENT).start()
        with RawConnection(server, server.post + LENGTH + BODY[:9]) as wire, RawConnection(server, GET) as idle:
            assert until(server.in_flight, lambda count: count == 1) == 1
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            assert idle.is_closed()
            with pytest.raises(ConnectionError):
                RawConnection(server)
            wire.send(BODY[9:])
            answer = wire.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert wire.is_closed()
        assert server.wait() == 0
        assert time.monotonic() - begun < RESPONSE_SHUTDOWN_SECONDS + SLACK
        assert "Traceback" not in server.complaints()

    def test_streams_are_closed_soon_and_requests_that_take_too_long_are_told(self, tmp_path: Path) -> None:
        server = LimitedServer(tmp_path / "data", *PATIENT).start()
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        with (
            RawConnection(server, events) as stream,
            RawConnection(server, LOGIN + b"Content-Length: 40\r\n\r\n") as slow,
        ):
            assert stream.answer().headers["transfer-encoding"] == "chunked"
            assert until(server.in_flight, lambda count: count == 2) == 2
            begun = time.monotonic()
            server.signal(signal.SIGTERM)
            assert b": keep-alive" in stream.rest()
            assert time.monotonic() - begun < STREAM_SHUTDOWN_SECONDS + SLACK
            answer = slow.answer()
            assert (answer.status, answer.message()) == (503, "The server is being stopped.")
            assert answer.headers["retry-after"] == "1"
        assert server.wait() == 0
        assert RESPONSE_SHUTDOWN_SECONDS <= time.monotonic() - begun < 5 + SLACK
        assert "Traceback" not in server.complaints()

    def test_a_second_signal_does_not_wait(self, tmp_path: Path) -> None:
        server = LimitedServer(tmp_path / "data", *PATIENT).start()
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        with RawConnection(server, events) as stream, RawConnection(server, LOGIN + b"Content-Length: 40\r\n\r\n"):
            assert stream.answer().status == 200
            assert until(server.in_flight, lambda count: count == 2) == 2
            begun = time.monotonic()
            server.signal(signal.SIGINT)
            time.sleep(0.3)
            server.signal(signal.SIGTERM)
            assert server.wait() == 0
        assert time.monotonic() - begun < RESPONSE_SHUTDOWN_SECONDS
        assert "Traceback" not in server.complaints()

    def test_a_stream_alone_ends_in_a_moment(self, tmp_path: Path) -> None:
        server = LimitedServer(tmp_path / "data").start()
        events = b"GET /api/stoker/v1/events HTTP/1.1\r\n" + HOST + server.signed + b"\r\n"
        with RawConnection(server, events) as stream, RawConnection(server, events + PING) as piped:
            assert (stream.answer().status, piped.answer().status) == (200, 200)
            begun = time.monotonic()
            assert server.stop() == 0
        assert time.monotonic() - begun < STREAM_SHUTDOWN_SECONDS + SLACK
        shown = [line for line in server.complaints().splitlines() if "/events" in line]
        assert len(shown) == 2
        assert all("GET /api/stoker/v1/events 200 trace_id=" in line for line in shown)


class TestTls:
    def test_it_is_spoken_and_the_session_cookie_stays_inside(
        self, tls_server: LimitedServer, trust: ssl.SSLContext
    ) -> None:
        with httpx.Client(base_url=f"https://localhost:{tls_server.port}", verify=trust) as client:
            assert client.get("/healthz").json() == {"status": "ok"}
            signed = {"Authorization": f"Bearer {tls_server.key.decode()}"}
            user = {"name": "eve", "password": "correct horse battery"}
            until(
                lambda: client.post("/api/stoker/v1/users", json=user, headers=signed).status_code,
                {201, 409}.__contains__,
            )
            login = {"username": "eve", "password": user["password"]}
            path = "/api/stoker/v1/login"
            logged_in = until(lambda: client.post(path, json=login), lambda answer: answer.status_code == 200)
            assert "; Secure" in logged_in.headers["set-cookie"]
            assert client.get("/x", headers={"X": "a" * 5000}).status_code == 431
        assert tls_server.address.startswith("https://")

    def test_plain_http_is_hung_up_on_and_a_silent_handshake_is_not_waited_for(
        self, tls_server: LimitedServer, trust: ssl.SSLContext
    ) -> None:
        with RawConnection(tls_server, PING) as plain:
            plain.hung_up()
        begun = time.monotonic()
        with RawConnection(tls_server) as silent:
            silent.hung_up()
        assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK
        with connected(tls_server, trust) as wire:
            wire.send(PING)
            assert wire.answer().status == 200
        assert tls_server.complaints().count("Traceback") == 0

    def test_limits_hold_inside_it_too(self, tls_server: LimitedServer, trust: ssl.SSLContext) -> None:
        begun = time.monotonic()
        with connected(tls_server, trust) as slow:
            slow.send(GET)
            assert slow.is_closed()
        assert TIMEOUT - 0.1 < time.monotonic() - begun < TIMEOUT + SLACK
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                wire = stack.enter_context(connected(tls_server, trust))
                wire.send(PING)
                assert wire.answer().status == 200
            assert stack.enter_context(connected(tls_server, trust)).answer().status == 503

    def test_a_stop_does_not_wait_for_a_client_that_does_not_say_goodbye(
        self, certificate: Certificate, trust: ssl.SSLContext, tmp_path: Path
    ) -> None:
        server = LimitedServer(tmp_path / "data", *certificate.flags).start()
        with connected(server, trust) as wire:
            wire.send(PING)
            assert wire.answer().status == 200
            begun = time.monotonic()
            assert server.stop() == 0
        assert time.monotonic() - begun < RESPONSE_SHUTDOWN_SECONDS + SLACK
        assert "Traceback" not in server.complaints()

    def test_a_key_with_a_passphrase_is_a_sentence_not_a_question(
        self, certificate: Certificate, tmp_path: Path
    ) -> None:
        locked = Certificate(certificate.cert, tmp_path / "locked.pem")
        words = [openssl(), "ec", "-in", str(certificate.key), "-aes256", "-passout", "pass:secret", "-out", locked.key]
        subprocess.run(words, check=True, capture_output=True)
        command = [*STOKER, "serve", "--port", "0", "--data-dir", str(tmp_path / "data"), *locked.flags]
        screen, keyboard = pty.openpty()
        try:
            refused = subprocess.run(
                command, stdin=keyboard, capture_output=True, text=True, timeout=10, start_new_session=True, check=False
            )
        finally:
            os.close(screen)
            os.close(keyboard)
        assert refused.returncode == 2
        assert "passphrase" in refused.stderr
        assert "Traceback" not in refused.stderr


class TestLog:
    SECRETS = (b"SECRET-HEADER", b"SECRET-PASSWORD", b"SECRET-QUERY", b"SECRET-COOKIE")

    def _speak(self, server: LimitedServer) -> dict[str, str]:
        """Say all kinds of things with secrets in them; the trace ids of the answers and what was asked."""
        header, password, query, cookie = self.SECRETS
        signed = b"Authorization: Bearer sk-stoker-" + header + b"\r\nCookie: stoker_session=" + cookie + b"\r\n"
        body = b'{"username":"eve","password":"' + password + b'"}'
        long = b"Content-Length: %d\r\n\r\n" % len(body) + body
        asked = {
            b"GET /healthz?token=" + query + b" HTTP/1.1\r\n" + HOST + signed + b"\r\n": "GET /healthz 200",
            b"GET /api/stoker/v1/me?token=" + query + b" HTTP/1.1\r\n" + HOST + signed + b"\r\n": (
                "GET /api/stoker/v1/me 401"
            ),
            LOGIN + long: "POST /api/stoker/v1/login 401",
            LOGIN + b"Content-Length: 999999999\r\n\r\n" + body: "POST /api/stoker/v1/login 413",
            b"POST /api/custom/workloads HTTP/1.1\r\n" + HOST + signed + long: "POST /api/custom/workloads 401",
            b"GET /a%0d%0a%7b%22level%22%7d?x=" + query + b" HTTP/1.1\r\n" + HOST + b"\r\n": (
                "GET /a%0d%0a%7b%22level%22%7d 404"
            ),
            b"GET /x?" + query + b" HTTP/1.1\r\n" + HOST + signed + b"X: " + b"a" * 5000: "GET /x 431",
            b"GET /x?" + query + b" HTTP/1.1\r\n" + HOST + HOST + signed + b"\r\n": "GET /x 400",
            signed + b"\r\n": "- - 400",
            query + b"\n" + cookie + b"\r\n\r\n": "- - 400",
            b"GET /y?" + query + b" HTTP/1.1\r\n" + HOST + WEBSOCKET.replace(b"13", b"1") + signed + b"\r\n": (
                "GET /y 400"
            ),
        }
        told = {server.ask(data).headers["x-trace-id"]: line for data, line in asked.items()}
        socket_path = b"GET /api/stoker/v1/workloads/w/exec?command=" + query
        assert server.ask(socket_path + b" HTTP/1.1\r\n" + HOST + signed + WEBSOCKET + b"\r\n").status == 401
        with RawConnection(server, LOGIN + b"Content-Length: 999\r\n\r\n" + body) as gone:
            assert until(server.in_flight, lambda count: count == 1) == 1
            gone.reset()
        assert until(server.in_flight, lambda count: count == 0) == 0
        return told

    def test_json_lines_parse_have_the_trace_id_and_no_secret(self, tmp_path: Path) -> None:
        flags = ("--log-format", "json", "--log-level", "debug", *PATIENT)
        with LimitedServer(tmp_path / "data", *flags).start() as server:
            told = self._speak(server)
            own_key = server.key.decode()
            assert server.stop() == 0
        text = server.complaints()
        lines = [msgspec.json.decode(line) for line in text.splitlines()]
        asked = [line for line in lines if line["logger"] == "stoker.access"]
        assert all(len(line["trace_id"]) == 32 and line["address"] == "127.0.0.1" for line in asked)
        seen = {line["trace_id"]: line["message"] for line in asked}
        assert {trace_id: seen.get(trace_id) for trace_id in told} == told
        assert "POST /api/stoker/v1/login 499" in seen.values()
        assert {line["level"] for line in lines} <= {"debug", "info"}
        assert [word for word in (*self.SECRETS, own_key.encode()) if word.decode() in text] == []


def test_every_loop_of_a_server_runs_under_supervision_and_is_counted(tmp_path: Path) -> None:
    with LimitedServer(tmp_path / "data") as server:
        text = httpx.get(f"{server.start().address}/metrics").text
    up = set(re.findall(r'^stoker_loop_up\{cluster="([^"]*)",loop="([^"]*)"\} 1\.0$', text, re.MULTILINE))
    of_the_server = {"clusters", "retention", "webhook delivery", "webhook lease", "webhooks"}
    of_the_cluster = {"controller", "lease", "observe", "changes", "queue", "timers", "logs", "reconcile"}
    of_the_cluster |= {
        "contact",
        "stray pods",
        "sampler",
        "live view",
        "compaction",
        "pod hours",
        "rollup",
        "snapshots",
        "inference",
    }
    assert up == {("", name) for name in of_the_server} | {("local", name) for name in of_the_cluster}
