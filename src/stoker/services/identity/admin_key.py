"""The admin key file of the data dir, for programs that run as the server's user.

The server registers the key in the file at its start or at the key's first use. A key that was registered and revoked
is never registered again; whoever may write to the data dir creates a new key by writing the file.
"""

import asyncio
import hashlib
import hmac
import os
import socket
from pathlib import Path

from stoker.domain.access.identity import ApiKey, User, UserKind, UserRole
from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.names import RandomBytes, new_uuid4
from stoker.domain.queries.pages import PageRequest, UserQuery
from stoker.services.context import Context, record_audit
from stoker.services.identity.bootstrap import ADMIN_USER
from stoker.services.identity.secret_format import KEY_PREFIX, format_api_key, key_hint, sha256_hex
from stoker.store.db.base import Transaction
from stoker.store.identity import admin_keys, api_keys, users

KEY_FILE = "admin.key"
DATA_DIR_CREDENTIAL = "data dir"


async def ensure_admin_key(context: Context, data_dir: Path) -> bool:
    """Create the key file if there is none and register its key; True when the key in the file works.

    The file is written before the key is registered, so a crash between the two loses nothing.
    """
    existing = _read_key_file(data_dir)
    secret = existing or _read_key_file(write_admin_key(data_dir, context.randomness).parent)
    return await context.store.write(lambda tx: _claim(context, tx, secret, data_dir, by_hand=bool(existing)))


async def claim_admin_key(context: Context, credential: str) -> bool:
    """Register the credential if it is the key in the file and was never registered before."""
    data_dir = Path(context.settings.data_dir)
    written = await asyncio.to_thread(_read_key_file, data_dir)
    if not written or not hmac.compare_digest(written.encode(), credential.encode()):
        return False
    return await context.store.write(lambda tx: _claim(context, tx, credential, data_dir, by_hand=True))


def write_admin_key(data_dir: Path, randomness: RandomBytes) -> Path:
    """Write a new key to the file atomically, readable by its owner only; the server registers it at its first use."""
    path = data_dir / KEY_FILE
    draft = path.with_suffix(".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(format_api_key(randomness(32)) + "\n")
        file.flush()
        os.fsync(file.fileno())
        if os.geteuid() == 0:  # the server may run as another user
            owner = data_dir.stat()
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    draft.replace(path)
    return path


def _read_key_file(data_dir: Path) -> str:
    """The key in the file; empty without one."""
    try:
        written = (data_dir / KEY_FILE).read_text().strip()
    except FileNotFoundError:
        return ""
    return written if written.startswith(KEY_PREFIX) else ""


def _claim(context: Context, transaction: Transaction, secret: str, data_dir: Path, *, by_hand: bool) -> bool:
    """True when the key is registered, before or now. A key that a person wrote is recorded in the audit log."""
    digest, now = sha256_hex(secret), context.clock.now()
    if api_keys.find_by_sha256(transaction, digest):
        admin_keys.claim(transaction, digest, now)
        return True
    owner = _find_owner(transaction)
    if owner is None or not admin_keys.claim(transaction, digest, now):
        return False
    data_dir_hash = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    name = f"{KEY_FILE} of {socket.gethostname()} {data_dir_hash}"
    api_keys.delete_by_name(transaction, name)
    key = ApiKey(
        new_uuid4(context.randomness), owner.id, owner.name, name, key_hint(secret), (), (), now, None, None, ""
    )
    api_keys.add(transaction, key, digest)
    if by_hand:
        caller = Actor(owner.id, owner.name, UserKind.PERSON, True, {}, credential=DATA_DIR_CREDENTIAL)
        record_audit(context, transaction, caller, Action.KEY_CREATE, key.id, f"{name} for {owner.name}")
    return True


def _find_owner(transaction: Transaction) -> User | None:
    """The user `admin` while it is an enabled admin, else the first enabled admin."""
    found = users.find(transaction, ADMIN_USER)
    if found is not None and found.role is UserRole.ADMIN and not found.disabled:
        return found
    admins = users.list_users(transaction, UserQuery("", UserRole.ADMIN, UserKind.PERSON, False), PageRequest(0, 1))
    return admins.items[0] if admins.items else None
