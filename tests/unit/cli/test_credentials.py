"""Which credential a server gets, and how a log-in is kept."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.conftest import RunStoker
from tests.unit.cli.fake import FakeServer, problem, user

from stoker.cli.credentials import StoredLogIn, credential_for, credentials_file, forget, keep, log_ins
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
        "csrfToken": "csrf",
        "expiresAt": "2026-01-15T22:30:00.000Z",
    }
    return FakeServer({"POST /login": (200, logged_in), "POST /logout": (204, None)})


def test_a_given_token_wins_over_a_log_in_and_that_over_the_admin_key(admin_key: str) -> None:
    assert credential_for(HERE, None).token == admin_key
    keep(HERE, LOG_IN)
    assert credential_for(HERE, None).token == "kept"
    assert credential_for(HERE, " given ").token == "given"


def test_the_admin_key_is_never_sent_to_another_machine(admin_key: str) -> None:
    assert credential_for(ELSEWHERE, None).token is None


def test_a_log_in_is_for_its_server_only(home: Path) -> None:
    keep(ELSEWHERE, LOG_IN)
    assert credential_for(ELSEWHERE, None).token == "kept"
    assert credential_for("https://other.test", None).token is None


def test_the_data_dir_of_the_environment_has_the_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_DATA_DIR", str(home / "data"))
    (home / "data").mkdir()
    (home / "data" / "admin.key").write_text("sk-there\n")
    assert credential_for("http://localhost:9000", None).token == "sk-there"


def test_without_any_credential_it_says_what_was_looked_for(home: Path) -> None:
    source = credential_for(HERE, None).source
    assert str(home / ".stoker" / "admin.key") in source


def test_log_ins_are_for_their_owner_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    keep(HERE, LOG_IN)
    assert credentials_file() == home / "xdg" / "stoker" / "credentials.json"
    assert stat.S_IMODE(credentials_file().stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials_file().parent.stat().st_mode) == 0o700
    assert [path.name for path in credentials_file().parent.iterdir()] == ["credentials.json"]


def test_what_is_forgotten_leaves_the_rest(home: Path) -> None:
    keep(HERE, LOG_IN)
    keep(ELSEWHERE, LOG_IN)
    assert forget(HERE)
    assert not forget(HERE)
    assert list(log_ins()) == [ELSEWHERE]


def test_a_damaged_file_says_so_and_the_next_log_in_writes_it_anew(home: Path) -> None:
    keep(HERE, LOG_IN)
    credentials_file().write_text("{")
    with pytest.raises(StokerError, match="cannot be read"):
        credential_for(HERE, None)
    keep(ELSEWHERE, LOG_IN)
    assert list(log_ins()) == [ELSEWHERE]


def test_a_log_in_is_kept_and_the_password_is_not(stoker: RunStoker, login_server: FakeServer) -> None:
    done = stoker("login", "-u", "li.wei", "--password-stdin", server=login_server, stdin="correct horse\n")
    assert done.exit_code == 0
    assert login_server.bodies() == [{"username": "li.wei", "password": "correct horse"}]
    assert json.loads(credentials_file().read_text())["servers"][HERE]["token"] == "fresh"
    assert "correct horse" not in credentials_file().read_text() + done.output
    assert "fresh" not in done.output


def test_a_log_out_ends_the_session_and_forgets_it(stoker: RunStoker, login_server: FakeServer) -> None:
    keep(HERE, LOG_IN)
    assert stoker("logout", server=login_server).exit_code == 0
    assert login_server.asked[-1].headers["authorization"] == "Bearer kept"
    assert log_ins() == {}


def test_a_session_that_has_ended_already_is_forgotten_as_well(stoker: RunStoker) -> None:
    keep(HERE, LOG_IN)
    ended = FakeServer({"POST /logout": (401, problem("not_signed_in", "The token has expired."))})
    assert stoker("logout", server=ended).exit_code == 0
    assert log_ins() == {}


def test_a_password_over_plain_http_is_warned_about(stoker: RunStoker, login_server: FakeServer) -> None:
    words = ("login", "--server", "http://gpu.test", "-u", "li.wei", "--password-stdin")
    assert "plain HTTP" in stoker(*words, server=login_server, stdin="correct horse\n").stderr
