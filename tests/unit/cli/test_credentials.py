"""Which credential a server gets, and how a log-in is stored."""

import contextlib
import json
import socket
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake_server import FakeServer, problem, user

from stoker.cli.core.credentials import (
    StoredLogIn,
    credential_for,
    credentials_file,
    remove_login,
    store_login,
    stored_logins,
)
from stoker.client.transport.unix_socket import SOCKET_NAME, local_data_dir, local_server_address
from stoker.domain.errors import StokerError

HERE = "http://127.0.0.1:8080"
ELSEWHERE = "https://gpu.test"
LOG_IN = StoredLogIn(token="kept", username="li.wei", expires_at="2026-01-15T22:30:00Z")


@pytest.fixture
def admin_key(home: Path) -> str:
    (home / ".stoker").mkdir()
    (home / ".stoker" / "admin.key").write_text("sk-admin\n")
    return "sk-admin"


@pytest.fixture
def login_server() -> FakeServer:
    logged_in: dict[str, Any] = {
        "user": user(),
        "accessToken": "fresh",
        "csrfToken": None,
        "expiresAt": "2026-01-15T22:30:00.000Z",
    }
    return FakeServer({"POST /login": (200, logged_in), "POST /logout": (204, None)})


def test_a_given_token_wins_over_a_log_in(home: Path) -> None:
    store_login(HERE, LOG_IN)
    assert credential_for(HERE, None).token == "kept"
    assert credential_for(HERE, " given ").token == "given"


@pytest.mark.parametrize("server", [HERE, ELSEWHERE, "http://localhost:9000", "unix:///srv/stoker/stoker.sock"])
def test_the_admin_key_of_the_data_dir_is_sent_nowhere_by_itself(admin_key: str, server: str) -> None:
    assert credential_for(server, None).token is None


def test_a_log_in_is_for_its_server_only(home: Path) -> None:
    store_login(ELSEWHERE, LOG_IN)
    assert credential_for(ELSEWHERE, None).token == "kept"
    assert credential_for("https://other.test", None).token is None


def test_without_any_credential_it_says_what_was_looked_for(home: Path) -> None:
    assert str(home / ".stoker") in credential_for(HERE, None).source
    assert "unix" not in credential_for("unix:///srv/stoker.sock", None).source
    assert "the socket /srv/stoker.sock" in credential_for("unix:///srv/stoker.sock", None).source


def test_the_socket_of_the_data_dir_is_the_server_where_none_is_named(
    stoker: RunStoker, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOKER_DATA_DIR", str(home / "data"))
    (home / "data").mkdir()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as bound:
        bound.bind(str(home / "data" / "stoker.sock"))
        store_login(f"unix://{home}/data/stoker.sock", LOG_IN)
        asked = FakeServer({"POST /logout": (204, None)})
        assert stoker("logout", server=asked).exit_code == 0
    assert asked.asked[-1].headers["authorization"] == "Bearer kept"


def test_log_ins_are_for_their_owner_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    store_login(HERE, LOG_IN)
    assert credentials_file() == home / "xdg" / "stoker" / "credentials.json"
    assert stat.S_IMODE(credentials_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials_file().parent.stat().st_mode) == 0o700
    assert [path.name for path in credentials_file().parent.iterdir()] == ["credentials.json"]


def test_what_is_forgotten_leaves_the_rest(home: Path) -> None:
    store_login(HERE, LOG_IN)
    store_login(ELSEWHERE, LOG_IN)
    assert remove_login(HERE)
    assert not remove_login(HERE)
    assert list(stored_logins()) == [ELSEWHERE]


def test_a_damaged_file_says_so_and_the_next_log_in_writes_it_anew(home: Path) -> None:
    store_login(HERE, LOG_IN)
    credentials_file().write_text("{")
    with pytest.raises(StokerError, match="cannot be read"):
        credential_for(HERE, None)
    store_login(ELSEWHERE, LOG_IN)
    assert list(stored_logins()) == [ELSEWHERE]


def test_a_log_in_is_kept_and_the_password_is_not(stoker: RunStoker, login_server: FakeServer) -> None:
    done = stoker("login", "-u", "li.wei", "--password-stdin", server=login_server, stdin="correct horse\n")
    assert done.exit_code == 0
    assert login_server.bodies() == [{"username": "li.wei", "password": "correct horse"}]
    assert login_server.asked[0].url.query == b"token=true"
    assert json.loads(credentials_file().read_text())["servers"][HERE]["token"] == "fresh"
    assert "correct horse" not in credentials_file().read_text() + done.output
    assert "fresh" not in done.output


def test_a_log_out_ends_the_session_and_forgets_it(stoker: RunStoker, login_server: FakeServer) -> None:
    store_login(HERE, LOG_IN)
    assert stoker("logout", server=login_server).exit_code == 0
    assert login_server.asked[-1].headers["authorization"] == "Bearer kept"
    assert stored_logins() == {}


def test_a_session_that_has_ended_already_is_forgotten_as_well(stoker: RunStoker) -> None:
    store_login(HERE, LOG_IN)
    ended = FakeServer({"POST /logout": (401, problem("not_signed_in", "The token has expired."))})
    assert stoker("logout", server=ended).exit_code == 0
    assert stored_logins() == {}


def test_a_password_over_plain_http_is_warned_about(stoker: RunStoker, login_server: FakeServer) -> None:
    words = ("login", "--server", "http://gpu.test", "-u", "li.wei", "--password-stdin")
    assert "plain HTTP" in stoker(*words, server=login_server, stdin="correct horse\n").stderr


def test_while_only_a_demo_runs_its_server_is_the_one_that_is_asked(home: Path) -> None:
    demo, usual = home / ".stoker-demo", home / ".stoker"
    assert local_data_dir() == usual
    with contextlib.ExitStack() as stack:
        for place in (demo, usual):
            place.mkdir()
            listening = stack.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(str(place / SOCKET_NAME))
            assert (local_data_dir(), local_server_address()) == (place, f"unix://{place / SOCKET_NAME}")


def test_a_new_admin_key_is_written_into_the_data_dir_and_nobody_is_asked(stoker: RunStoker, home: Path) -> None:
    server = FakeServer()
    (home / ".stoker").mkdir(mode=0o700)
    path = home / ".stoker" / "admin.key"
    path.write_text("sk-stoker-before\n")
    done = stoker("key", "create", "--admin", server=server)
    assert (done.exit_code, server.asked) == (0, [])
    secret = path.read_text().strip()
    assert secret.startswith("sk-stoker-")
    assert secret != "sk-stoker-before"
    assert done.stdout == f"Wrote a new admin key to {path}.\n"
    assert secret not in done.output
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_new_admin_key_goes_into_the_data_dir_that_is_named(stoker: RunStoker, home: Path) -> None:
    (home / "srv").mkdir()
    done = stoker("key", "create", "--admin", "--data-dir", str(home / "srv"), "-o", "json")
    assert json.loads(done.stdout) == {"file": str(home / "srv" / "admin.key")}


def test_where_no_server_has_its_data_there_is_no_admin_key_to_make(stoker: RunStoker, home: Path) -> None:
    failed = stoker("key", "create", "--admin", "--data-dir", str(home / "nowhere"))
    assert failed.exit_code == 3
    assert f"No admin key can be written into the data dir {home / 'nowhere'}" in failed.stderr
    assert "--data-dir" in failed.stderr


@pytest.mark.parametrize("words", [("nightly",), ("--scope", "read"), ("--cidr", "10.0.0.0/8"), ("--user", "li")])
def test_an_admin_key_has_no_name_and_no_limits(stoker: RunStoker, words: tuple[str, ...]) -> None:
    assert stoker("key", "create", "--admin", *words).exit_code == 2


def test_any_other_key_has_a_name(stoker: RunStoker) -> None:
    refused = stoker("key", "create")
    assert (refused.exit_code, "NAME" in refused.stderr) == (2, True)
