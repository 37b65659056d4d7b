"""Which credential a server gets. The admin key never leaves this machine: it is for loopback only.

--token or STOKER_TOKEN wins, then the log-in kept for that server, then the data dir's admin key.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.client.address import is_loopback
from stoker.domain.errors import ErrorCode, StokerError

ADMIN_KEY = "admin.key"


class Credential(Struct, frozen=True):
    """`source` says where it came from, for a person."""

    token: str | None
    source: str


class StoredLogIn(Struct, frozen=True, rename="camel"):
    token: str
    username: str
    expires_at: str


class _File(Struct, frozen=True):
    servers: dict[str, StoredLogIn] = {}


def credentials_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".config"
    return base / "stoker" / "credentials.json"


def data_dir() -> Path:
    """The server's data dir on this machine, as far as a client can know it."""
    return Path(os.environ.get("STOKER_DATA_DIR") or "~/.stoker").expanduser()


def credential_for(server: str, given: str | None) -> Credential:
    """What to send to this server."""
    if given:
        return Credential(given.strip(), "that of --token or STOKER_TOKEN")
    if stored := log_ins().get(server):
        return Credential(stored.token, f"the log-in as {stored.username} kept in {credentials_file()}")
    if not is_loopback(server):
        return Credential(None, "none; there is no log-in for this server")
    path = data_dir() / ADMIN_KEY
    try:
        return Credential(path.read_text().strip() or None, f"the admin key in {path}")
    except OSError as error:
        return Credential(None, f"none; there is no log-in for this server, and no key in {path}: {error.strerror}")


def log_ins() -> dict[str, StoredLogIn]:
    """Every log-in that is kept, by server."""
    path = credentials_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).servers
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise StokerError(
            ErrorCode.NOT_SIGNED_IN,
            f"The log-ins in {path} cannot be read: {error}.",
            hint="Signing in again writes the file anew.",
        ) from error


def keep(server: str, log_in: StoredLogIn) -> None:
    _write(_readable() | {server: log_in})


def forget(server: str) -> bool:
    """Whether there was anything to forget."""
    kept = _readable()
    found = kept.pop(server, None)
    if found:
        _write(kept)
    return found is not None


def _readable() -> dict[str, StoredLogIn]:
    try:
        return log_ins()
    except StokerError:
        return {}


def _write(servers: dict[str, StoredLogIn]) -> None:
    """Whole or not at all, for its owner only."""
    path = credentials_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(_File(servers)), indent=2) + b"\n"
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".credentials.")  # mkstemp's mode is 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(draft).unlink()
        raise
