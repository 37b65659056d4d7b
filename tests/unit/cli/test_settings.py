"""`stoker serve` and `stoker config` take every setting, from flags, environment and file."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import RunStoker

from stoker.cli.verbs.config import show
from stoker.cli.verbs.serve import announcement, command
from stoker.domain.resolving import describe, resolve
from stoker.domain.settings import Settings


def shown(stoker: RunStoker, *words: str) -> dict[str, object]:
    return json.loads(stoker("config", "show", "--json", *words).stdout)


@pytest.mark.parametrize("verb", [command, show])
def test_every_setting_is_a_flag(verb: object) -> None:
    flags = {flag for param in getattr(verb, "params", []) for flag in param.opts}
    assert {doc.flag for doc in describe()} <= flags
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


def announced(home: Path, address: str, data_dir: str) -> list[str]:
    settings: Settings = resolve({"data_dir": data_dir}, {"HOME": str(home)}, {}).settings
    return announcement(address, Path(settings.data_dir) / "admin.key", settings).splitlines()


def test_a_start_says_where_it_is_where_the_key_is_and_what_to_type(home: Path) -> None:
    assert announced(home, "http://127.0.0.1:8080", "~/.stoker") == [
        "Stoker is ready at http://127.0.0.1:8080",
        f"Admin key: {home}/.stoker/admin.key",
        "API docs:  http://127.0.0.1:8080/docs",
        "Next:      stoker whoami",
    ]


def test_the_command_to_type_works_for_another_port_and_data_dir(home: Path) -> None:
    line = announced(home, "http://127.0.0.1:9000", "/srv/my stoker")[-1]
    assert line == "Next:      STOKER_DATA_DIR='/srv/my stoker' stoker --server http://127.0.0.1:9000 whoami"
