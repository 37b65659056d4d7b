"""A reader of changes is given each of them once, also those that come to be seen late."""

from pathlib import Path

import psycopg
from tests.conftest import LoopRun

from stoker.store.db.base import Store, Transaction
from stoker.store.db.factory import open_store
from stoker.store.db.postgres.connection import to_psycopg_sql
from stoker.store.workloads.events import GAP_TIMEOUT_MS, EventCursor
from stoker.store.workloads.transitions import ADD_EVENT

PARTS = {"at": 1, "slug": "a", "workspace_id": 1, "kind": "phase", "phase": "Running", "reason": "r", "message": ""}


def add(transaction: Transaction, uid: str) -> None:
    transaction.execute(ADD_EVENT, {**PARTS, "workload_uid": uid})


def read(store: Store, loop_run: LoopRun, cursor: EventCursor, now: int = 0) -> list[str]:
    return [row.workload_uid for row in loop_run(store.read_inline(lambda tx: cursor.read(tx, now)))]


def test_every_change_is_given_once(store: Store, loop_run: LoopRun) -> None:
    cursor = EventCursor(0)
    loop_run(store.write(lambda tx: [add(tx, "a"), add(tx, "b")]))
    assert read(store, loop_run, cursor) == ["a", "b"]
    assert read(store, loop_run, cursor) == []
    loop_run(store.write(lambda tx: add(tx, "c")))
    assert read(store, loop_run, cursor) == ["c"]


def test_a_change_that_is_committed_after_a_later_one_is_given_too(
    postgres_url: str, loop_run: LoopRun, tmp_path: Path
) -> None:
    store = open_store(postgres_url, tmp_path, pool=4)
    cursor = EventCursor(0)
    with psycopg.connect(postgres_url) as slow:
        slow.execute(to_psycopg_sql(ADD_EVENT), {**PARTS, "workload_uid": "slow"})
        loop_run(store.write(lambda tx: add(tx, "fast")))
        assert read(store, loop_run, cursor) == ["fast"]
        assert read(store, loop_run, cursor) == []
        slow.commit()
        assert read(store, loop_run, cursor) == ["slow"]
        assert read(store, loop_run, cursor) == []
    loop_run(store.close())


def test_numbers_that_never_came_are_not_looked_for_for_ever(
    postgres_url: str, loop_run: LoopRun, tmp_path: Path
) -> None:
    store = open_store(postgres_url, tmp_path, pool=4)
    cursor = EventCursor(0)
    with psycopg.connect(postgres_url) as slow:
        slow.execute(to_psycopg_sql(ADD_EVENT), {**PARTS, "workload_uid": "slow"})
        loop_run(store.write(lambda tx: add(tx, "fast")))
        assert read(store, loop_run, cursor) == ["fast"]
        assert read(store, loop_run, cursor, now=GAP_TIMEOUT_MS) == []
        slow.commit()
        assert read(store, loop_run, cursor, now=GAP_TIMEOUT_MS) == []
    loop_run(store.close())
