"""The server, as a client sees it: its port, whether it answers, and whether the admin key opens it."""

import email.utils
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from stoker import __version__
from stoker.cli.credentials import ADMIN_KEY
from stoker.client import Stoker
from stoker.client.transport import unproxied
from stoker.domain.errors import StokerError
from stoker.domain.settings import Settings
from stoker.server.checks.finding import Finding, broken, ok, warning

ANSWER_SECONDS = 5.0
SKEW_SECONDS = 60


class _Part(Struct, frozen=True):
    name: str
    ready: bool
    message: str = ""


class _Readiness(Struct, frozen=True):
    ready: bool
    parts: tuple[_Part, ...]


class Reached(Struct, frozen=True):
    """What the server said of itself; None where no Stoker answered."""

    finding: Finding
    readiness: _Readiness | None = None
    skew_seconds: float = 0.0


def local_address(settings: Settings) -> str:
    """Where a server with these settings is found from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - looked for, not bound
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{settings.port}"


def reach(server: str, process: str | None, asked_for: bool) -> Reached:
    """No server at all is only broken where one was asked for, or is known to run."""
    try:
        with httpx.Client(timeout=ANSWER_SECONDS, mounts=unproxied(server)) as client:
            response = client.get(f"{server}/readyz")
    except httpx.TransportError as error:
        if not asked_for and process is None:
            return Reached(warning("server", f"No server answers at {server}.", "Start one: stoker serve"))
        advice = "Check the address: stoker --server URL check" if process else "Check that it runs, and the address."
        return Reached(broken("server", f"No server answers at {server}: {error}.", advice))
    try:
        readiness = msgspec.json.decode(response.content, type=_Readiness)
    except msgspec.DecodeError:
        return Reached(broken("server", f"What answers at {server} is not Stoker.", "Check the address, or --port."))
    skew = _skew(response.headers.get("date", ""))
    if readiness.ready:
        return Reached(ok("server", f"The server at {server} is ready."), readiness, skew)
    failing = "; ".join(f"{part.name}: {part.message}" for part in readiness.parts if not part.ready)
    return Reached(broken("server", f"The server at {server} is not ready: {failing}", "See its log."), readiness, skew)


def port(settings: Settings, reached: Reached) -> Finding:
    """Whether a server could listen, when none does."""
    if settings.port == 0:
        return ok("port", "The server takes any free port.")
    place = f"Port {settings.port} of {settings.host}"
    if reached.readiness is not None:
        return ok("port", f"{place} is served by Stoker.")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[
            0
        ]
        with socket.socket(family, kind, protocol) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return broken("port", f"{place} cannot be used: {error.strerror}.", "Choose another: stoker serve --port 0")
    return ok("port", f"{place} is free.")


def admin_key(server: str, data_dir: Path, reached: Reached) -> Iterator[Finding]:
    """The key in the data dir is private, and opens the server that runs on it."""
    path = data_dir / ADMIN_KEY
    try:
        key = path.read_text().strip()
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        yield warning("admin key", f"{path} does not exist yet.", "stoker serve makes it.")
        return
    except OSError as error:
        yield broken("admin key", f"{path}: {error.strerror}.", f"chown {os.getuid()} {path}")
        return
    if mode & 0o077:
        yield warning("admin key", f"{path} can be read by other users (mode {mode:o}).", f"chmod 600 {path}")
    if reached.readiness is None:
        yield ok("admin key", f"{path} is there; no server to try it on.")
        return
    try:
        with Stoker(server, key, timeout_seconds=ANSWER_SECONDS) as client:
            version = client.settings().version
    except StokerError as error:
        advice = "Is it the server of this data dir? If so, delete the file and start the server again for a new key."
        yield broken("admin key", f"{server} does not take {path}: {error.message}", advice)
        return
    yield ok("admin key", f"{path} opens {server}.")
    yield _same_version(version)


def skew(server: str, reached: Reached) -> Iterator[Finding]:
    if abs(reached.skew_seconds) > SKEW_SECONDS:
        message = f"The clock of {server} differs from this one by {reached.skew_seconds:.0f} s."
        yield warning("clock of the server", message, "Keep both right with NTP: timedatectl set-ntp true")


def _same_version(version: str) -> Finding:
    if version == __version__:
        return ok("version", f"Server and client are {version}.")
    return warning("version", f"The server is {version}, this client {__version__}.", f"pip install stoker=={version}")


def _skew(date: str) -> float:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
