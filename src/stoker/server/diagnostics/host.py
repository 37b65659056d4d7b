"""Checks of the machine: Python, clock, installed extras and TLS files."""

import importlib.util
import platform
import ssl
import sys
import time
from pathlib import Path

from stoker.domain.clock import format_rfc3339
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.settings.schema import Settings

MIN_PYTHON = (3, 11)
MIN_CLOCK_SECONDS = 1_767_225_600
"""2026-01-01: a clock before this time is wrong."""
MODULE_BY_EXTRA = {"postgres": "psycopg", "amd": "amdsmi", "parquet": "pyarrow"}
"""The module that each extra installs."""
AMD_DRIVER_PATH = "sys/class/kfd/kfd/topology"


def check_python_version(found: tuple[int, int] = sys.version_info[:2]) -> Finding:
    version = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if found < MIN_PYTHON:
        return broken("python", f"{version} is too old.", "Install Python 3.11 or newer.")
    return ok("python", f"{version}.")


def check_clock(data_dir: Path, now: float | None = None) -> Finding:
    """A clock that is behind makes new tokens and certificates invalid and expired ones valid."""
    now = time.time() if now is None else now
    shown = f"The clock shows {format_rfc3339(int(now * 1000))}"
    advice = "Set it, and keep it right with NTP: timedatectl set-ntp true"
    if now < MIN_CLOCK_SECONDS:
        return broken("clock", f"{shown}, which is before this version was made.", advice)
    try:
        newest = max((path.stat().st_mtime for path in data_dir.iterdir()), default=0.0)
    except OSError:
        newest = 0.0
    if newest > now + 60:
        return warning(
            "clock", f"{shown}, but files in {data_dir} are from {format_rfc3339(int(newest * 1000))}.", advice
        )
    return ok("clock", f"{shown}.")


def check_extras(settings: Settings, root: Path = Path("/")) -> Finding:
    """An extra may be missing unless a setting needs it; the AMD extra is suggested only with AMD's driver."""
    installed = [extra for extra, module in MODULE_BY_EXTRA.items() if _is_installed(module)]
    if settings.database and "postgres" not in installed:
        return broken("extras", "The database is PostgreSQL, and psycopg is missing.", "pip install 'stoker[postgres]'")
    useful = [extra for extra in MODULE_BY_EXTRA if extra != "amd" or (root / AMD_DRIVER_PATH).exists()]
    offered = "".join(f" pip install 'stoker[{extra}]' adds {extra}." for extra in useful if extra not in installed)
    return ok("extras", f"Installed: {', '.join(installed) or 'none'}.{offered}")


def check_tls(settings: Settings) -> Finding:
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


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
