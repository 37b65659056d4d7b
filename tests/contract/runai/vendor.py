"""The vendor's own client, each version in a virtual environment of its own, unmodified."""

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("1.223.0", "1.224.0")
SCRIPTS = Path(__file__).with_name("scripts")
ENVIRONMENTS = Path(sys.prefix) / "runapy"
TIMEOUT_SECONDS = 300


def python_of(version: str) -> Path:
    """The interpreter that has this version of the client; the environment is made when it is first asked for."""
    folder = ENVIRONMENTS / version
    python = folder / "bin" / "python"
    done = folder / "installed"
    if done.exists():
        return python
    venv.create(folder, with_pip=True, clear=True)
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", f"runapy=={version}"]
    installed = subprocess.run(command, capture_output=True, text=True, check=False)
    if installed.returncode:
        if _unreachable(installed.stderr):
            pytest.skip(f"runapy {version} cannot be installed: no package index can be reached from here")
        raise AssertionError(installed.stderr)
    done.touch()
    return python


class VendorScripts:
    """Scripts that run beside the vendor's client. What one version has imported serves all its scripts."""

    def __init__(self, folder: Path) -> None:
        self._output, self._errors = folder / "output", folder / "errors"
        self._runners: dict[str, subprocess.Popen[str]] = {}

    def run(self, version: str, name: str, **given: Any) -> Any:
        """What a script says."""
        if version not in self._runners:
            command = [python_of(version), "-W", "ignore", SCRIPTS / "run_many.py"]
            pipe = subprocess.PIPE
            self._runners[version] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        runner = self._runners[version]
        assert runner.stdin is not None
        assert runner.stdout is not None
        paths = [str(path) for path in (self._output, self._errors)]
        print(
            json.dumps([str(SCRIPTS / f"{name}.py"), json.dumps(given), *paths, TIMEOUT_SECONDS]),
            file=runner.stdin,
            flush=True,
        )
        code = runner.stdout.readline().strip()
        assert code == "0", (code, self._errors.read_text()[-4000:])
        return json.loads(self._output.read_text())

    def close(self) -> None:
        for runner in self._runners.values():
            with runner:
                runner.kill()


def _unreachable(complaint: str) -> bool:
    return any(words in complaint for words in ("Failed to establish a new connection", "Name or service not known"))
