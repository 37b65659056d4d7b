"""What a fresh installation begins with, and the admin key that each data dir holds."""

import hashlib
import os
import socket
from pathlib import Path

from stoker.domain.identity import ApiKey, Cluster, Department, QueuePolicy, Quota, User, UserKind, UserRole, Workspace
from stoker.domain.names import new_uuid
from stoker.services.context import Context
from stoker.services.secrets import KEY_PREFIX, api_key, hint_of, sha256
from stoker.store import accounts, clusters, counters, credentials, departments, workspaces
from stoker.store.base import Transaction

ADMIN = "admin"
DEFAULT = "default"
LOCAL = "local"
KEY_FILE = "admin.key"


async def prepare(context: Context) -> None:
    """User `admin`, department and workspace `default`, cluster `local`, where they have never been."""
    await context.store.write(lambda tx: _found_installation(context, tx))


async def ensure_admin_key(context: Context, data_dir: Path) -> Path:
    """A file in the data dir holds a working key of `admin`. Delete the file to get a new key at the next start.

    The file is on disk before the database knows the key, so a crash between the two loses nothing.
    """
    path = data_dir / KEY_FILE
    secret = path.read_text().strip() if path.exists() else ""
    if not secret.startswith(KEY_PREFIX):
        secret = api_key(context.randomness(32))
        _write_private(path, secret + "\n")
    await context.store.write(lambda tx: _remember_key(context, tx, secret, data_dir))
    return path


def _found_installation(context: Context, transaction: Transaction) -> None:
    if counters.advance(transaction, "start") > 1:
        return
    now = context.clock.now()
    cluster = Cluster(new_uuid(context.randomness), LOCAL, "local", "This machine.", now)
    clusters.add(transaction, cluster)
    department = Department(counters.advance(transaction, "department"), DEFAULT, "", now, now, 1)
    departments.add(transaction, department)
    workspace = Workspace(
        id=counters.advance(transaction, "workspace"),
        name=DEFAULT,
        description="",
        department_id=department.id,
        department=department.name,
        cluster_id=cluster.id,
        cluster=cluster.name,
        namespace=DEFAULT,
        quota=Quota(),
        queue_policy=QueuePolicy.FIFO,
        preemption=True,
        created_at=now,
        updated_at=now,
        version=1,
    )
    workspaces.add(transaction, workspace)
    accounts.add(
        transaction,
        User(
            id=new_uuid(context.randomness),
            name=ADMIN,
            kind=UserKind.PERSON,
            role=UserRole.ADMIN,
            full_name="",
            email="",
            disabled=False,
            default_workspace_id=workspace.id,
            default_workspace=workspace.name,
            created_at=now,
            updated_at=now,
            version=1,
        ),
    )


def _remember_key(context: Context, transaction: Transaction, secret: str, data_dir: Path) -> None:
    digest = sha256(secret)
    admin = accounts.find(transaction, ADMIN)
    if admin is None or credentials.key_by_sha256(transaction, digest):
        return
    place = hashlib.sha256(str(data_dir).encode()).hexdigest()[:8]
    name = f"{KEY_FILE} of {socket.gethostname()} {place}"
    credentials.delete_keys_named(transaction, admin.id, name)
    now = context.clock.now()
    key = ApiKey(new_uuid(context.randomness), admin.id, ADMIN, name, hint_of(secret), (), (), now, None, None, "")
    credentials.add_key(transaction, key, digest)


def _write_private(path: Path, text: str) -> None:
    """Written whole or not at all, readable by its owner only."""
    draft = path.with_suffix(".new")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
