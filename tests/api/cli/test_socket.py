"""The command line connects to the local server through the socket in the data dir, and sends no key."""

import contextlib
import os
import shutil
import signal
import socket
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.api.cli.conftest import PASSWORD, Serving, Terminal

from stoker.client import Stoker

READY = b'HTTP/1.1 200 OK\r\nContent-Length: 25\r\nConnection: close\r\n\r\n{"ready":true,"parts":[]}'
REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"


class ImpostorServer:
    """Listens where a server should, reports that it is ready, and records everything it receives."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.heard = b""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection:
                    while b"\r\n\r\n" not in self.heard.rpartition(b"HTTP/1.1")[2] and (part := connection.recv(4096)):
                        self.heard += part
                    connection.sendall(READY if b"/readyz" in self.heard.rpartition(b"GET")[2] else REFUSED)

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def impostor() -> Iterator[ImpostorServer]:
    with contextlib.closing(ImpostorServer()) as listening:
        yield listening


@pytest.mark.parametrize("words", [("whoami",), ("check",), ("--server", "http://127.0.0.1:{port}", "whoami")])
def test_whoever_listens_on_the_port_of_the_server_does_not_get_the_admin_key(
    impostor: ImpostorServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "admin.key").write_text("sk-stoker-secret\n")
    (tmp_path / "data" / "admin.key").chmod(0o600)
    terminal = Terminal(tmp_path, STOKER_DATA_DIR=str(tmp_path / "data"), STOKER_PORT=str(impostor.port))
    terminal.type(*(word.format(port=impostor.port) for word in words))
    assert b"HTTP/1.1" in impostor.heard
    assert b"sk-stoker-secret" not in impostor.heard


def test_the_socket_is_for_its_owner_only_and_makes_an_admin_without_a_key(
    serving: Serving, terminal: Terminal
) -> None:
    (serving.data_dir / "admin.key").rename(serving.data_dir / "admin.key.away")
    try:
        assert terminal.json("whoami")["user"]["name"] == "admin"
    finally:
        (serving.data_dir / "admin.key.away").rename(serving.data_dir / "admin.key")
    found = (serving.data_dir / "stoker.sock").stat()
    assert (stat.S_ISSOCK(found.st_mode), stat.S_IMODE(found.st_mode)) == (True, 0o600)


def test_the_audit_log_names_the_socket_and_the_user_of_the_machine(terminal: Terminal) -> None:
    terminal.ok("department", "create", "through-the-socket")
    [record] = terminal.json("audit", "--action", "department.create", "--actor", "admin", "--limit", "1")["items"]
    assert (record["credential"], record["address"]) == (f"socket uid {os.getuid()}", "127.0.0.1")


def test_forwarding_headers_over_the_socket_are_not_believed(tmp_path: Path) -> None:
    serving = Serving(tmp_path, tmp_path / "data", "--trusted-proxies", "127.0.0.0/8")
    try:
        transport = httpx.HTTPTransport(uds=str(serving.data_dir / "stoker.sock"))
        with httpx.Client(transport=transport, base_url="http://localhost") as client:
            headers = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
            made = client.post("/api/stoker/v1/departments", json={"name": "far"}, headers=headers)
            assert made.status_code == 201
        [record] = serving.terminal.json("audit", "--action", "department.create")["items"]
        assert record["address"] == "127.0.0.1"
    finally:
        serving.stop()


def test_a_token_over_the_socket_is_whom_it_names(terminal: Terminal) -> None:
    terminal.ok("user", "create", "pia")
    secret = terminal.ok("key", "create", "hers", "--user", "pia").strip()
    assert terminal.json("whoami", "--token", secret)["user"]["name"] == "pia"
    assert terminal.type("whoami", "--token", "sk-stoker-wrong").returncode == 4


def test_a_log_in_over_the_socket_lasts_until_the_log_out(serving: Serving, tmp_path: Path) -> None:
    admin = serving.terminal
    admin.ok("user", "create", "kim", "--password-stdin", stdin=f"{PASSWORD}\n")
    own = Terminal(tmp_path, STOKER_DATA_DIR=str(serving.data_dir))
    own.ok("login", "-u", "kim", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert own.json("whoami")["user"]["name"] == "kim"
    own.ok("logout")
    assert own.json("whoami")["user"]["name"] == "admin"


def test_a_named_server_is_asked_over_tcp_and_needs_a_credential(serving: Serving, terminal: Terminal) -> None:
    refused = terminal.type("--server", serving.address, "whoami")
    assert refused.returncode == 4
    assert "Credential: none" in refused.stderr
    key = (serving.data_dir / "admin.key").read_text().strip()
    assert terminal.type("--server", serving.address, "--token", key, "whoami").returncode == 0


def test_a_socket_can_be_named_as_the_server(serving: Serving, tmp_path: Path) -> None:
    named = f"unix://{serving.data_dir}/stoker.sock"
    assert Terminal(tmp_path).json("--server", named, "whoami")["user"]["name"] == "admin"


def test_the_sdk_without_an_address_uses_the_socket(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_DATA_DIR", str(serving.data_dir))
    with Stoker() as client:
        assert client.server == f"unix://{serving.data_dir}/stoker.sock"
        assert client.me().user.name == "admin"


def test_a_data_dir_with_a_path_too_long_for_a_socket_is_served_and_reached() -> None:
    home = Path(tempfile.mkdtemp(prefix="stoker-test-"))
    long = home / ("a" * 60) / ("b" * 60)
    try:
        serving = Serving(home, long)
        try:
            assert serving.terminal.json("whoami")["user"]["name"] == "admin"
            serving.terminal.ok("run", "--name", "long", "--", "echo", "hello")
        finally:
            serving.stop()
        assert not (long / "stoker.sock").exists()
    finally:
        shutil.rmtree(home)


def test_a_stale_socket_is_replaced_and_a_stopped_server_is_named(tmp_path: Path) -> None:
    killed = Serving(tmp_path, tmp_path / "data")
    killed.stop(signal.SIGKILL)
    assert (tmp_path / "data" / "stoker.sock").exists()
    gone = killed.terminal.type("whoami")
    assert gone.returncode == 5
    assert f"No server runs on the data dir {tmp_path / 'data'}" in gone.stderr
    assert gone.stderr.endswith("Next: stoker serve\n")
    again = Serving(tmp_path, tmp_path / "data")
    try:
        assert again.terminal.json("whoami")["user"]["name"] == "admin"
        refused = again.terminal.type("serve", "--port", "0")
        assert refused.returncode == 1
        assert again.terminal.type("whoami").returncode == 0
    finally:
        assert again.stop() == (0, "")
    assert not (tmp_path / "data" / "stoker.sock").exists()
    assert "No server runs on the data dir" in again.terminal.type("whoami", STOKER_PORT="1").stderr


def test_a_file_in_the_place_of_the_socket_is_kept_and_told_of(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "stoker.sock").write_text("mine")
    serving = Serving(tmp_path, tmp_path / "data")
    try:
        assert httpx.get(f"{serving.address}/healthz").status_code == 200
    finally:
        code, errors = serving.stop()
    assert (code, (tmp_path / "data" / "stoker.sock").read_text()) == (0, "mine")
    assert "stoker.sock" in errors
