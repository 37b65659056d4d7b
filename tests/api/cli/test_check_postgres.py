"""`stoker check` of a server on PostgreSQL, from a shell without its settings."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.cli.conftest import Serving, Terminal
from tests.postgres import PASSWORD, PostgresServer


@pytest.fixture
def served(tmp_path: Path, postgres_url: str) -> Iterator[Serving]:
    running = Serving(tmp_path, tmp_path / "data", "--database", postgres_url)
    yield running
    running.stop()


def test_the_running_server_is_judged_by_its_own_settings(served: Serving, postgres_server: PostgresServer) -> None:
    found = served.terminal.json("check")
    checks = {check["name"]: check for check in found["checks"]}
    assert found["ok"] is True
    assert checks["lock"]["message"] == f"A server (process {served.process.pid}) is running on {served.data_dir}."
    assert (checks["database"]["verdict"], checks["server"]["verdict"]) == ("ok", "ok")
    assert f":***@127.0.0.1:{postgres_server.port}/" in checks["database"]["message"]
    assert "database" in checks["settings"]["message"]
    assert PASSWORD not in str(found)


def test_where_the_password_is_known_the_schema_is_looked_at_too(served: Serving, postgres_url: str) -> None:
    terminal = Terminal(served.data_dir.parent, STOKER_DATA_DIR=str(served.data_dir), STOKER_DATABASE=postgres_url)
    checks = {check["name"]: check for check in terminal.json("check")["checks"]}
    assert "its schema is current" in checks["database"]["message"]


def test_a_second_server_on_its_data_dir_is_refused(served: Serving, postgres_url: str) -> None:
    refused = served.terminal.type("serve", "--port", "0", "--database", postgres_url)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Error: Another Stoker (process {served.process.pid}) already uses")
    assert served.terminal.json("whoami")["user"]["name"] == "admin"


def test_a_stopped_one_is_told_from_a_running_one(served: Serving) -> None:
    served.stop()
    found = json.loads(served.terminal.type("check", "--json").stdout)  # it ends with 1 where the port is another's
    checks = {check["name"]: check for check in found["checks"]}
    assert checks["lock"]["message"] == f"No server is running on {served.data_dir}."
