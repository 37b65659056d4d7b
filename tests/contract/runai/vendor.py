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
PATIENCE = 300.0


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


def run_script(version: str, name: str, **given: Any) -> Any:
    """What a script says that runs beside the vendor's client."""
    command = [python_of(version), "-W", "ignore", SCRIPTS / f"{name}.py", json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def _unreachable(complaint: str) -> bool:
    return any(words in complaint for words in ("Failed to establish a new connection", "Name or service not known"))
