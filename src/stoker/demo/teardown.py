"""Removes the demo from an installation: its cluster with all workloads, its tenants and its files.

Everything real stays: other clusters, users that are not simulated, and departments with other workspaces.
"""

import shutil
from pathlib import Path

from msgspec import Struct

from stoker.demo.backfill.runner import COUNTER_PREFIX
from stoker.demo.tenants import DEMO_CLUSTER, EMAIL_DOMAIN, TENANTS
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.store import open_store
from stoker.store.cluster import clusters, leases, removal
from stoker.store.db.base import Transaction
from stoker.store.db.sqlite.connection import DATABASE_FILE
from stoker.store.identity import departments
from stoker.store.identity import users as accounts
from stoker.store.sql import sequences


class RemovedDemo(Struct, frozen=True, rename="camel"):
    """The number of removed objects."""

    data_dir: str
    workloads: int
    workspaces: int
    users: int


async def remove_demo(settings: Settings, clock: Clock) -> RemovedDemo:
    """Remove the demo; refused while a server uses the data dir or controls the cluster."""
    data_dir = Path(settings.data_dir)
    if not settings.database and not (data_dir / DATABASE_FILE).exists():
        raise _demo_not_found(data_dir)
    store = open_store(settings.database, data_dir, pool=2)
    try:
        if settings.database:
            await store.read(lambda tx: _check_not_running(tx, clock.now()))
        removed = await store.write(lambda tx: _remove_rows(tx, data_dir))
    finally:
        await store.close()
    shutil.rmtree(data_dir / "simulated" / DEMO_CLUSTER, ignore_errors=True)
    return removed


def _check_not_running(transaction: Transaction, now: int) -> None:
    for lease in leases.of_clusters(transaction):
        if lease.name == DEMO_CLUSTER and lease.expires_at > now:
            message = f'A server drives cluster "{DEMO_CLUSTER}".'
            raise StokerError(ErrorCode.CONFLICT, message, hint="Stop that server first, and wait 15 seconds.")


def _remove_rows(transaction: Transaction, data_dir: Path) -> RemovedDemo:
    cluster = clusters.find(transaction, DEMO_CLUSTER)
    if cluster is None:
        raise _demo_not_found(data_dir)
    rows = removal.remove_cluster(transaction, cluster.id)
    sequences.delete_by_prefix(transaction, COUNTER_PREFIX)
    users = 0
    for name in sorted({name for team in TENANTS for name in team.users}):
        user = accounts.find(transaction, name)
        if user is not None and user.email.endswith(EMAIL_DOMAIN):
            accounts.delete(transaction, user.id)
            users += 1
    for name in sorted({team.department for team in TENANTS}):
        department = departments.find(transaction, name)
        if department is not None and not departments.count_workspaces(transaction, department.id):
            departments.delete(transaction, department.id)
    return RemovedDemo(str(data_dir), rows["workload"], rows["workspace"], users)


def _demo_not_found(data_dir: Path) -> StokerError:
    return StokerError(
        ErrorCode.NOT_FOUND,
        f"There is no demo in {data_dir}.",
        hint="Name the data directory that holds it: stoker demo remove --data-dir DIR",
    )
