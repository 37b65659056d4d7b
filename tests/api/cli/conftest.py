"""A real `stoker serve` process, and a terminal that runs `stoker` commands against it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

STOKER = (str(Path(sys.executable).with_name("stoker")),)
TIMEOUT_SECONDS = 20
PASSWORD = "correct horse battery"


class Terminal:
    """Runs `stoker …` as one user of one machine."""

    def __init__(self, home: Path, **environment: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("STOKER_", "XDG_"))}
        self.environment = {**kept, "HOME": str(home), "NO_COLOR": "1", **environment}

    def type(
        self, *words: str, stdin: str = "", cwd: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*STOKER, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            env={**self.environment, **environment},
            cwd=cwd,
            check=False,
        )

    def ok(self, *words: str, stdin: str = "") -> str:
        """The output of a command that must succeed."""
        done = self.type(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str, stdin: str = "") -> Any:
        return msgspec.json.decode(self.ok(*words, "--json", stdin=stdin))


class Serving:
    """A server process that is ready."""

    def __init__(self, home: Path, data_dir: Path, *flags: str) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            [*STOKER, "serve", "--port", "0", "--data-dir", str(data_dir), "--log-level", "warning", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=Terminal(home).environment,
        )
        assert self.process.stdout is not None
        self.announced = [self.process.stdout.readline().rstrip("\n") for _ in range(5)]
        self.address = self.announced[0].removeprefix("Stoker is ready at ")
        self.terminal = Terminal(home, STOKER_DATA_DIR=str(data_dir))

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Stop the server; returns its exit code and its stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, errors


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One server for the tests of a module."""
    home = tmp_path_factory.mktemp("home")
    running = Serving(home, home / "data")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def terminal(serving: Serving) -> Terminal:
    """The terminal of the admin on the server's machine: no log-in, no token."""
    return serving.terminal


@pytest.fixture
def stranger(serving: Serving, tmp_path: Path) -> Terminal:
    """Another user of the machine, who cannot read the data dir."""
    return Terminal(tmp_path, STOKER_SERVER=serving.address)
