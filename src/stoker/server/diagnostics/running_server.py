"""Checks of the running server as a client sees it: its socket, its port, its readiness, and the admin key."""

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
from stoker.cli.core.credentials import ADMIN_KEY_FILE
from stoker.client import Stoker
from stoker.client.transport.httpx_transport import UNIX_SOCKET_BASE_URL, bypass_proxy
from stoker.client.transport.unix_socket import SOCKET_NAME, UNIX_SCHEME, kernel_socket_path, socket_path
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings

RESPONSE_TIMEOUT_SECONDS = 5.0
MAX_CLOCK_SKEW_SECONDS = 60
LOCAL_HOST_BY_WILDCARD = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - looked for, not bound
"""The loopback addresses of a server that listens on all addresses."""


class _ReadinessPart(Struct, frozen=True):
    name: str
    ready: bool
    message: str = ""


class _Readiness(Struct, frozen=True):
    ready: bool
    parts: tuple[_ReadinessPart, ...]


class ServerProbe(Struct, frozen=True):
    """The finding about a server; `readiness` is None if no Stoker server answered."""

    finding: Finding
    readiness: _Readiness | None = None
    skew_seconds: float = 0.0


class RunningServer(Struct, frozen=True):
    """The server of a data dir as it describes itself. Passwords in its settings are hidden."""

    address: str
    settings: Settings
    version: str


def read_running_server(data_dir: Path) -> RunningServer | StokerError | None:
    """The description that the server of this data dir gives through its socket, or why there is none; None without a
    socket."""
    path = data_dir / SOCKET_NAME
    if not path.exists():
        return None
    address = f"{UNIX_SCHEME}{path}"
    try:
        with Stoker(address, timeout_seconds=RESPONSE_TIMEOUT_SECONDS) as client:
            found = client.settings()
        values = {each.name: each.value for each in found.settings}
        return RunningServer(address, msgspec.convert(values, Settings), found.version)
    except StokerError as error:
        return error
    except msgspec.ValidationError as error:  # a server of another version
        return StokerError(ErrorCode.UNAVAILABLE, f"Its settings cannot be read: {error}.")


def check_socket(data_dir: Path, process: str | None, found: RunningServer | StokerError | None) -> Finding:
    """Whether the command line reaches the server of this data dir."""
    path = data_dir / SOCKET_NAME
    if isinstance(found, RunningServer):
        return ok("socket", f"The server answers at {path}.")
    if process is None:
        return ok("socket", "No server is running, so there is nothing to connect to.")
    why = found.message if found else f"{path} does not exist."
    return broken("socket", f"The server does not answer at its socket: {why}", "Check its log, or restart it.")


def check_server_database(settings: Settings, reached: ServerProbe) -> Finding:
    """The database of the running server as the server reports it, because only the server knows the password."""
    parts = reached.readiness.parts if reached.readiness else ()
    for part in parts:
        if part.name == "database":
            if part.ready:
                return ok("database", f"{settings.database} answers the server.")
            return broken("database", part.message, "Check that it runs, and --database of the server.")
    return warning("database", f"The server does not say how {settings.database} is.", "Check the server's log.")


def local_address(settings: Settings) -> str:
    """The address on this machine of a server with these settings."""
    host = LOCAL_HOST_BY_WILDCARD.get(settings.host, settings.host)
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.tls_cert else 'http'}://{shown}:{settings.port}"


def probe_server(server: str, process: str | None, asked_for: bool) -> ServerProbe:
    """Probe the server. A missing server is a failure only if an address was given or a server is known to run."""
    try:
        with _http_client(server) as client:
            response = client.get("/readyz")
    except httpx.TransportError as error:
        if not asked_for and process is None:
            return ServerProbe(warning("server", f"No server answers at {server}.", "Start one: stoker serve"))
        advice = "Check the address: stoker --server URL check" if process else "Check that it runs, and the address."
        return ServerProbe(broken("server", f"No server answers at {server}: {error}.", advice))
    try:
        readiness = msgspec.json.decode(response.content, type=_Readiness)
    except msgspec.DecodeError:
        return ServerProbe(broken("server", f"The program at {server} is not Stoker.", "Check the address, or --port."))
    skew = _clock_skew(response.headers.get("date", ""))
    if readiness.ready:
        return ServerProbe(ok("server", f"The server at {server} is ready."), readiness, skew)
    failing = "; ".join(f"{part.name}: {part.message}" for part in readiness.parts if not part.ready)
    return ServerProbe(
        broken("server", f"The server at {server} is not ready: {failing}", "See its log."), readiness, skew
    )


def check_clusters(reached: ServerProbe) -> Iterator[Finding]:
    """Clusters without a leader, as the server reports them."""
    for part in reached.readiness.parts if reached.readiness else ():
        if part.name == "cluster":
            what, _, advice = part.message.partition(". ")
            yield warning("cluster", f"{what}.", advice)


def check_port(settings: Settings, process: str | None) -> Finding:
    """Whether the running server accepts connections; without a server, whether the port is free."""
    if settings.port == 0:
        return ok("port", "The server takes any free port.")
    place = f"Port {settings.port} of {settings.host}"
    if process is not None:
        host = LOCAL_HOST_BY_WILDCARD.get(settings.host, settings.host)
        try:
            socket.create_connection((host, settings.port), RESPONSE_TIMEOUT_SECONDS).close()
        except OSError as error:
            advice = "Check the server's log, or restart it."
            return broken("port", f"{place} accepts no connections: {error.strerror or error}.", advice)
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


def check_admin_key(data_dir: Path, found: RunningServer | None) -> Iterator[Finding]:
    """Whether the key in the data dir is private and accepted by the server. It is sent through the socket only."""
    path = data_dir / ADMIN_KEY_FILE
    try:
        key = path.read_text().strip()
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        yield warning("admin key", f"{path} does not exist yet.", "stoker serve creates it.")
        return
    except OSError as error:
        yield broken("admin key", f"{path}: {error.strerror}.", f"chown {os.getuid()} {path}")
        return
    if mode & 0o077:
        yield warning("admin key", f"{path} can be read by other users (mode {mode:o}).", f"chmod 600 {path}")
    if found is None:
        yield ok("admin key", f"{path} exists; no server is running to test it.")
        return
    try:
        with Stoker(found.address, key, timeout_seconds=RESPONSE_TIMEOUT_SECONDS) as client:
            client.me()
    except StokerError as error:
        advice = "If it was revoked, make a new one: stoker key create --admin"
        yield broken("admin key", f"The server does not take {path}: {error.message}", advice)
        return
    yield ok("admin key", f"{path} opens the server.")


def check_version(found: RunningServer) -> Finding:
    if found.version == __version__:
        return ok("version", f"Server and client are {found.version}.")
    advice = f"pip install stoker=={found.version}"
    return warning("version", f"The server is {found.version}, this client {__version__}.", advice)


def check_clock_skew(server: str, reached: ServerProbe) -> Iterator[Finding]:
    if abs(reached.skew_seconds) > MAX_CLOCK_SKEW_SECONDS:
        message = f"The clock of {server} differs from this one by {reached.skew_seconds:.0f} s."
        yield warning("clock of the server", message, "Keep both right with NTP: timedatectl set-ntp true")


def _http_client(server: str) -> httpx.Client:
    path = socket_path(server)
    if path is not None:
        transport = httpx.HTTPTransport(verify=False, uds=kernel_socket_path(path))
        return httpx.Client(timeout=RESPONSE_TIMEOUT_SECONDS, base_url=UNIX_SOCKET_BASE_URL, transport=transport)
    return httpx.Client(timeout=RESPONSE_TIMEOUT_SECONDS, base_url=server, mounts=bypass_proxy(server))


def _clock_skew(date: str) -> float:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp() - time.time()
    except ValueError:
        return 0.0
