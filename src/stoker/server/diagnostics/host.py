"""The machine: Python, its clock, what is installed, and the TLS files."""

import importlib.util
import platform
import ssl
import sys
import time
from pathlib import Path

from stoker.domain.clock import rfc3339
from stoker.domain.settings import Settings
from stoker.server.checks.finding import Finding, broken, ok, warning

OLDEST_PYTHON = (3, 11)
MADE_AT = 1_767_225_600
"""2026-01-01: a clock that shows less is wrong."""
EXTRAS = {
    "postgres": "psycopg",
    "kubernetes": "lightkube",
    "nvidia": "pynvml",
    "amd": "amdsmi",
    "sso": "authlib",
    "parquet": "pyarrow",
}


def python_version(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    version = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if found < OLDEST_PYTHON:
        return broken("python", f"{version} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"{version}.")


def clock(data_dir: Path, now: float | None = None) -> Finding:
    """A clock that is behind makes fresh tokens and certificates invalid, and old ones valid."""
    now = time.time() if now is None else now
    shown = f"The clock shows {rfc3339(int(now * 1000))}"
    advice = "Set it, and keep it right with NTP: timedatectl set-ntp true"
    if now < MADE_AT:
        return broken("clock", f"{shown}, which is before this version was made.", advice)
    try:
        newest = max((path.stat().st_mtime for path in data_dir.iterdir()), default=0.0)
    except OSError:
        newest = 0.0
    if newest > now + 60:
        return warning("clock", f"{shown}, but files in {data_dir} are from {rfc3339(int(newest * 1000))}.", advice)
    return ok("clock", f"{shown}.")


def extras(settings: Settings) -> Finding:
    """What is optional is fine to lack, unless a setting needs it."""
    missing = [extra for extra, module in EXTRAS.items() if importlib.util.find_spec(module) is None]
    if settings.database and "postgres" in missing:
        return broken("extras", "The database is PostgreSQL, and psycopg is missing.", "pip install 'stoker[postgres]'")
    present = ", ".join(extra for extra in EXTRAS if extra not in missing) or "none"
    add = f"; not installed: {', '.join(missing)} (pip install 'stoker[{missing[0]}]')" if missing else ""
    return ok("extras", f"Installed: {present}{add}.")


def tls(settings: Settings) -> Finding:
    if not settings.tls_cert:
        return ok("tls", "Not set up; the server speaks plain HTTP.")
    for name in (settings.tls_cert, settings.tls_key):
        try:
            Path(name).read_bytes()
        except OSError as error:
            return broken("tls", f"{name}: {error.strerror}.", "Check --tls-cert and --tls-key.")
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.tls_cert, settings.tls_key)
    except ssl.SSLError as error:
        return broken("tls", f"The certificate or its key cannot be used: {error.reason or error}.", "Make them anew.")
    return ok("tls", f"{settings.tls_cert} and its key belong together.")
