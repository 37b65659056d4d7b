"""Deletes rows that are past their retention, in small batches, so that other writers do not wait."""

import logging

from stoker.domain.clock import DAY_MS, HOUR_MS, Clock
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import Settings
from stoker.store import retention
from stoker.store.db.base import Store, TransactionFn
from stoker.store.usage import closed_hours
from stoker.store.workloads import counts

INTERVAL_SECONDS = 600
DELETE_BATCH_SIZE = 500
"""How many rows are deleted in one transaction."""
MAX_BATCHES = 1000
"""How many transactions one table gets in a round."""
BATCH_PAUSE_SECONDS = 0.02
"""The pause between transactions, in which others can write."""
EVENT_RETENTION_DAYS = 7
"""For how long clients can resume the event stream. Conditions are kept with their workload."""

log = logging.getLogger("stoker.retention")


def retention_cutoffs(settings: Settings, now: int, usage_kept_from: int) -> dict[str, int]:
    """For each table, the time before which its rows are deleted."""
    cutoffs = {
        "session": now,
        "login_attempt": now - settings.login_window_seconds * 1000,
        "log_chunk": now - settings.log_days * DAY_MS,
        "training_chunk": now - settings.training_days * DAY_MS,
        "sample_chunk": now - settings.sample_days * DAY_MS - HOUR_MS,
        "sample_block": now - settings.sample_days * DAY_MS - HOUR_MS,
        "pod_sample_block": now - settings.sample_days * DAY_MS - HOUR_MS,
        "device_index": now - settings.sample_days * DAY_MS - HOUR_MS,
        "allocation_snapshot": now - settings.snapshot_days * DAY_MS,
        **dict.fromkeys(retention.USAGE_TABLES, usage_kept_from),
        "workload_event": now - EVENT_RETENTION_DAYS * DAY_MS,
        "webhook_delivery": now - settings.webhook_days * DAY_MS,
        "idempotency_key": now - settings.idempotency_hours * HOUR_MS,
    }
    return cutoffs | ({"audit_log": now - settings.audit_days * DAY_MS} if settings.audit_days else {})


async def purge_once(store: Store, settings: Settings, clock: Clock) -> int:
    """Purge every table once and compact the workload counts. Returns the number of deleted rows.

    Usage is hidden from readers in one round and deleted in the next, so that a long report that is being read stays
    complete.
    """
    gone, now = 0, clock.now()
    kept_from = await store.read_inline(closed_hours.retained_from)
    for table, before in retention_cutoffs(settings, now, kept_from).items():
        gone += await _run_batches(
            store, clock, lambda tx, t=table, b=before: retention.purge(tx, t, b, DELETE_BATCH_SIZE)
        )
    await _run_batches(store, clock, lambda tx: counts.compact(tx, DELETE_BATCH_SIZE))
    oldest_day = (now - settings.usage_days * DAY_MS) // DAY_MS * DAY_MS
    await store.write(lambda tx: closed_hours.set_retained_from(tx, oldest_day))
    return gone


async def purge_forever(store: Store, settings: Settings, clock: Clock) -> None:
    while True:
        try:
            if gone := await purge_once(store, settings, clock):
                log.info("forgot %d old rows", gone)
        except StokerError as error:
            log.warning("old rows could not be forgotten: %s", error.message)
        await clock.sleep(INTERVAL_SECONDS)


async def _run_batches(store: Store, clock: Clock, batch: TransactionFn[int]) -> int:
    """Run batches with pauses until one is not full. Returns the number of rows of all batches.

    After MAX_BATCHES the rest is left to the next round, so that a table that grows as fast as it is purged does not
    delay the others.
    """
    done = 0
    for _ in range(MAX_BATCHES):
        rows = await store.write(batch)
        done += rows
        if rows < DELETE_BATCH_SIZE:
            break
        await clock.sleep(BATCH_PAUSE_SECONDS)
    return done
