"""A command line that sees no network, no home and no environment but its own."""

import os
from pathlib import Path
from typing import Protocol

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.fake_server import FakeServer

from stoker.cli.main import cli


class RunStoker(Protocol):
    def __call__(self, *words: str, server: FakeServer | None = None, stdin: str | None = None) -> Result: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the test's own, and nothing of ours in the environment."""
    for name in [name for name in os.environ if name.startswith("STOKER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it in its workers
    return tmp_path


@pytest.fixture
def stoker(home: Path) -> RunStoker:
    """Runs `stoker` in this process against a fake server."""

    def run(*words: str, server: FakeServer | None = None, stdin: str | None = None) -> Result:
        transport = (server or FakeServer()).transport
        return CliRunner().invoke(cli, list(words), obj=transport, input=stdin, prog_name="stoker")

    return run
