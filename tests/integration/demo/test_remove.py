"""A demo is taken out of an installation whole, and nothing real goes with it."""

import asyncio
from pathlib import Path

import pytest
from msgspec import structs
from tests.conftest import LoopRun

from stoker.demo.teardown import remove_demo
from stoker.domain.access.identity import UserKind
from stoker.domain.access.permissions import Actor
from stoker.domain.clock import SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings
from stoker.server.composition import Installation, running_installation
from stoker.store import open_store
from stoker.store.cluster import leases, removal
from stoker.store.db.base import Transaction

ADMIN = Actor("1", "admin", UserKind.PERSON, admin=True, memberships={})
LIVE = "SELECT uid FROM workload WHERE ended_at IS NULL"
CLUSTERS = "SELECT name FROM cluster ORDER BY name"
OWNED = {"cluster_id", "workload_uid", "pod_uid"}
GONE_WITH_THEIR_OWNERS = {
    "workload_condition",
    "phase_interval",
    "pod",
    "workload_label",
    "workload_object",
    "workload_revision",
}
"""A foreign key removes these with the workload."""


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    small = {"demo": True, "demo_gpus": 48, "demo_days": 0.1, "reserve_bytes": 0, "gpus": 2}
    return Settings(data_dir=str(tmp_path / "data"), database=database_url, **small)  # type: ignore[arg-type]


async def counted(installation: Installation) -> tuple[list[str], int, int, int]:
    """The clusters, and how many workspaces, users and departments there are."""

    def read(transaction: Transaction) -> tuple[list[str], int, int, int]:
        numbers = [
            transaction.fetch_all(f"SELECT COUNT(*) FROM {table}")[0][0]  # noqa: S608
            for table in ("workspace", "user_account", "department")
        ]
        return [row[0] for row in transaction.fetch_all(CLUSTERS)], *numbers

    return await installation.store.read(read)


def test_what_is_simulated_goes_and_what_is_real_stays(settings: Settings, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with running_installation(settings) as demo:
            clusters, workspaces, users, departments = await counted(demo)
            assert clusters == ["demo", "local"]
            [[demo_id]] = await demo.store.read(lambda tx: tx.fetch_all("SELECT id FROM cluster WHERE name = 'demo'"))
        if settings.database:
            await expire_leases(settings)
        removed = await remove_demo(settings, SystemClock())
        assert removed.workloads > 0
        assert (removed.workspaces, removed.users) == (workspaces - 1, users - 1)
        assert not (Path(settings.data_dir) / "simulated" / "demo").exists()
        with pytest.raises(StokerError) as caught:
            await remove_demo(settings, SystemClock())
        assert caught.value.code is ErrorCode.NOT_FOUND
        store = open_store(settings.database, Path(settings.data_dir), pool=2)
        left = await store.read(lambda tx: _left_of(tx, demo_id))
        await store.close()
        assert left == []
        async with running_installation(settings) as again:  # a new demo is made as on the first day
            assert await counted(again) == (clusters, workspaces, users, departments)

    loop_run(live())


def test_a_server_without_the_demo_says_that_nobody_drives_it(settings: Settings, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with running_installation(settings):
            pass
        async with running_installation(structs.replace(settings, demo=False)) as real:
            await real.store.write(lambda tx: tx.execute("UPDATE lease SET expires_at = 0 WHERE epoch = 1"))
            parts = await real.services.health.check_components()
            [told] = [part.message for part in parts if part.name == "cluster"]
            assert told.startswith('No server drives cluster "demo": ')
            assert told.endswith("Start the server with --demo, or remove the demo with: stoker demo remove")
            uids = [row[0] for row in await real.store.read(lambda tx: tx.fetch_all(LIVE))]
            assert uids
            for uid in uids:
                answer = await real.services.explain.explain(ADMIN, uid)
                assert (answer.code, answer.sentence[:30]) == ("not_driven", 'No server drives cluster "demo')

    loop_run(live())


async def expire_leases(settings: Settings) -> None:
    """The lease of a server that has just stopped keeps others away for a while."""
    with pytest.raises(StokerError, match='A server drives cluster "demo"'):
        await remove_demo(settings, SystemClock())
    store = open_store(settings.database, Path(settings.data_dir), pool=2)
    await store.write(lambda tx: tx.execute("UPDATE lease SET expires_at = 0"))
    assert {each.expires_at for each in await store.read(leases.of_clusters)} == {0}
    await store.close()


def _left_of(transaction: Transaction, cluster_id: str) -> list[str]:
    """Tables with a row of this cluster, or of a workload or a pod that is not there."""
    conditions = {
        **dict.fromkeys(removal.TABLES_BY_CLUSTER, "cluster_id = :cluster_id"),
        **dict.fromkeys(removal.TABLES_BY_WORKLOAD, "workload_uid NOT IN (SELECT uid FROM workload)"),
        **dict.fromkeys(removal.TABLES_BY_POD, "pod_uid NOT IN (SELECT uid FROM pod)"),
    }
    given = {"cluster_id": cluster_id}
    return [
        table
        for table, where in conditions.items()
        if transaction.fetch_one(f"SELECT 1 FROM {table} WHERE {where}", given)  # noqa: S608
    ]


def test_a_data_dir_in_use_is_left_alone(tmp_path: Path, loop_run: LoopRun) -> None:
    store = open_store("", tmp_path, pool=2)
    with pytest.raises(StokerError, match="already uses"):
        loop_run(remove_demo(Settings(data_dir=str(tmp_path)), SystemClock()))
    loop_run(store.close())


def test_every_table_of_a_cluster_is_known(tmp_path: Path) -> None:
    """A table that is added later and holds anything of a cluster must be emptied too."""

    def owned(transaction: Transaction) -> set[str]:
        tables = [row[0] for row in transaction.fetch_all("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: {row[1] for row in transaction.fetch_all(f"PRAGMA table_info({table})")} for table in tables}
        return {table for table, names in columns.items() if names & OWNED}

    async def look() -> set[str]:
        store = open_store("", tmp_path, pool=2)
        try:
            return await store.read(owned)
        finally:
            await store.close()

    known = {*removal.TABLES_BY_CLUSTER, *removal.TABLES_BY_WORKLOAD, *removal.TABLES_BY_POD}
    assert asyncio.run(look()) == known | GONE_WITH_THEIR_OWNERS
