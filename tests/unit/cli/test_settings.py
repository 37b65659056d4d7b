"""`stoker serve` and `stoker config` take every setting, from flags, environment and file."""

import json
from pathlib import Path

import pytest
from msgspec import structs
from tests.unit.cli.conftest import RunStoker

from stoker.cli.commands.server.config import show
from stoker.cli.commands.server.serve import serve_command, startup_message
from stoker.domain.settings.description import describe_settings
from stoker.domain.settings.loading import resolve_settings
from stoker.domain.settings.schema import Settings

EVERYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens here


def shown(stoker: RunStoker, *words: str) -> dict[str, object]:
    return json.loads(stoker("config", "show", "--json", *words).stdout)


@pytest.mark.parametrize("verb", [serve_command, show])
def test_every_setting_is_a_flag(verb: object) -> None:
    flags = {flag for param in getattr(verb, "params", []) for flag in param.opts}
    assert {doc.flag for doc in describe_settings()} <= flags
    assert "--config" in flags


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    stoker: RunStoker, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "stoker.toml").write_text('port = 1111\nlog_level = "error"\n')
    monkeypatch.setenv("STOKER_CONFIG", str(home / "stoker.toml"))
    assert (shown(stoker)["port"], shown(stoker)["log_level"]) == (1111, "error")
    monkeypatch.setenv("STOKER_PORT", "2222")
    assert shown(stoker)["port"] == 2222
    assert shown(stoker, "--port", "3333")["port"] == 3333


def test_a_switch_may_stand_alone(stoker: RunStoker) -> None:
    assert shown(stoker)["demo"] is False
    assert shown(stoker, "--demo")["demo"] is True
    assert shown(stoker, "--demo", "--port", "9000") == shown(stoker, "--port", "9000", "--demo", "true")
    assert shown(stoker, "--demo", "no")["demo"] is False


def test_the_origin_of_each_value_can_be_seen(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_HOST", "::1")
    found = shown(stoker, "--origin", "--port", "9000")
    assert found["port"] == {"value": 9000, "origin": "flag --port"}
    assert found["host"] == {"value": "::1", "origin": "env STOKER_HOST"}
    lines = stoker("config", "show", "--origin").stdout.splitlines()
    assert lines[0].split() == ["SETTING", "VALUE", "FROM"]


def test_a_password_in_the_database_address_is_hidden(stoker: RunStoker) -> None:
    assert "s3cret" not in stoker("config", "show", "--database", "postgresql://u:s3cret@db/x").output


def test_a_variable_that_means_nothing_is_warned_about(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_PROT", "1")
    found = stoker("config", "show")
    assert found.exit_code == 0
    assert "Warning: STOKER_PROT is not a setting and has no effect. Did you mean STOKER_PORT?" in found.stderr


def test_the_places_of_files_can_be_asked_for(stoker: RunStoker, home: Path) -> None:
    found = json.loads(stoker("config", "path", "--json").stdout)
    assert found["dataDir"] == str(home / ".stoker")
    assert found["adminKey"] == str(home / ".stoker" / "admin.key")


def test_a_postgres_is_not_backed_up_as_a_file(stoker: RunStoker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOKER_DATABASE", "postgresql://u:s3cret@db/x")
    failed = stoker("backup", "x.db")
    assert failed.exit_code == 1
    assert "pg_dump" in failed.stderr


def test_a_server_on_every_address_says_which_those_are(home: Path) -> None:
    settings = structs.replace(Settings(), host=EVERYWHERE)
    lines = startup_message("http://127.0.0.1:8080", home / "admin.key", settings, ["10.1.2.3", "fd00::7"]).splitlines()
    assert lines[:3] == [
        "Stoker is ready at http://127.0.0.1:8080",
        "           and at http://10.1.2.3:8080",
        "           and at http://[fd00::7]:8080",
    ]
    assert EVERYWHERE not in "\n".join(lines)


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (("--host", EVERYWHERE), True),
        (("--host", "10.1.2.3"), True),
        (("--host", EVERYWHERE, "--tls-cert", "/c.pem", "--tls-key", "/k.pem"), False),
        (("--host", "127.0.0.1"), False),
        ((), False),
    ],
)
def test_a_server_that_others_reach_without_tls_warns(
    stoker: RunStoker, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], warned: bool
) -> None:
    monkeypatch.setattr("stoker.server.http_server.serve", lambda settings, announce: None)
    done = stoker("serve", *words)
    assert done.exit_code == 0, done.stderr
    assert ("without TLS" in done.stderr) is warned


def announced(home: Path, address: str, data_dir: str) -> list[str]:
    settings: Settings = resolve_settings({"data_dir": data_dir}, {"HOME": str(home)}, {}).settings
    return startup_message(address, Path(settings.data_dir) / "admin.key", settings).splitlines()


def test_a_start_says_where_it_is_where_the_key_is_and_what_to_type(home: Path) -> None:
    assert announced(home, "http://127.0.0.1:8080", "~/.stoker") == [
        "Stoker is ready at http://127.0.0.1:8080",
        f"Data dir:  {home}/.stoker",
        f"Admin key: {home}/.stoker/admin.key",
        "API docs:  http://127.0.0.1:8080/docs",
        "Next:      stoker whoami",
    ]


def test_the_command_to_type_works_for_another_port_and_data_dir(home: Path) -> None:
    line = announced(home, "http://127.0.0.1:9000", "/srv/my stoker")[-1]
    assert line == "Next:      STOKER_DATA_DIR='/srv/my stoker' stoker whoami"
