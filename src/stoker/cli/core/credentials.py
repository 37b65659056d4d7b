"""Chooses the credential for a server: --token or STOKER_TOKEN, otherwise the stored log-in.

The socket of this machine's server needs none. The admin key of the data dir is never sent automatically, because any
program that listens on a local port would receive it.
"""

import contextlib
import os
import tempfile
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.client.transport.server_address import is_loopback
from stoker.client.transport.unix_socket import local_data_dir, socket_path
from stoker.domain.errors import ErrorCode, StokerError

ADMIN_KEY_FILE = "admin.key"


class Credential(Struct, frozen=True):
    """`source` describes where the credential came from."""

    token: str | None
    source: str


class StoredLogIn(Struct, frozen=True, rename="camel"):
    token: str
    username: str
    expires_at: str


class _CredentialsFile(Struct, frozen=True):
    servers: dict[str, StoredLogIn] = {}


def credentials_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".config"
    return base / "stoker" / "credentials.json"


def credential_for(server: str, given: str | None) -> Credential:
    """The credential to send to this server."""
    if given:
        return Credential(given.strip(), "that of --token or STOKER_TOKEN")
    if stored := stored_logins().get(server):
        return Credential(stored.token, f"the log-in as {stored.username} kept in {credentials_file()}")
    if (path := socket_path(server)) is not None:
        return Credential(None, f"the socket {path}, for which this user of the machine is admin")
    if is_loopback(server):
        local = f"a server whose data dir is {local_data_dir()} needs none if --server is left out"
        return Credential(None, f"none; there is no log-in for {server} ({local})")
    return Credential(None, f"none; there is no log-in for {server}")


def stored_logins() -> dict[str, StoredLogIn]:
    """All stored log-ins, by server."""
    path = credentials_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_CredentialsFile).servers
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise StokerError(
            ErrorCode.UNAUTHENTICATED,
            f"The log-ins in {path} cannot be read: {error}.",
            hint="Signing in again writes the file anew.",
        ) from error


def store_login(server: str, log_in: StoredLogIn) -> None:
    _write_file(_stored_logins_or_empty() | {server: log_in})


def remove_login(server: str) -> bool:
    """Delete a stored log-in; False if there is none."""
    kept = _stored_logins_or_empty()
    found = kept.pop(server, None)
    if found:
        _write_file(kept)
    return found is not None


def _stored_logins_or_empty() -> dict[str, StoredLogIn]:
    try:
        return stored_logins()
    except StokerError:
        return {}


def _write_file(servers: dict[str, StoredLogIn]) -> None:
    """Replace the file atomically, readable by its owner only."""
    path = credentials_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(_CredentialsFile(servers)), indent=2) + b"\n"
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".credentials.")  # mkstemp's mode is 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(draft).unlink()
        raise
