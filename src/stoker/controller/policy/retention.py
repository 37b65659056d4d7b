"""Forgets what is past its time, a few rows at a time so that nobody waits for it."""

import asyncio
import logging

from stoker.domain.clock import DAY_MS, HOUR_MS, Clock
from stoker.domain.errors import StokerError
from stoker.domain.settings import Settings
from stoker.store import retention, workload_counts
from stoker.store.base import Store

EVERY_SECONDS = 600
CHANGE_DAYS = 7
"""How long the event stream can be taken up again; conditions stay with their workload."""

log = logging.getLogger("stoker.retention")


def horizons(settings: Settings, now: int) -> dict[str, int]:
    """For each table, the moment before which its rows are forgotten."""
    kept = {
        "session": now,
        "login_attempt": now - settings.login_window_seconds * 1000,
        "log_chunk": now - settings.log_days * DAY_MS,
        "training_chunk": now - settings.training_days * DAY_MS,
        "sample_chunk": now - settings.sample_days * DAY_MS - HOUR_MS,
        "sample_segment": now - settings.sample_days * DAY_MS - HOUR_MS,
        "pod_hour": now - settings.sample_days * DAY_MS - HOUR_MS,
        "change": now - CHANGE_DAYS * DAY_MS,
        "webhook_delivery": now - settings.webhook_days * DAY_MS,
        "idempotency": now - settings.idempotency_hours * HOUR_MS,
    }
    return kept | ({"audit": now - settings.audit_days * DAY_MS} if settings.audit_days else {})


async def forget_once(store: Store, settings: Settings, clock: Clock) -> int:
    """One round over every table; says how many rows went. Counts are folded in the same round."""
    gone = 0
    for table, before in horizons(settings, clock.now()).items():
        while deleted := await store.write(lambda tx, t=table, b=before: retention.forget(tx, t, b)):
            gone += deleted
    while await store.write(workload_counts.fold):
        pass
    return gone


async def forget_forever(store: Store, settings: Settings, clock: Clock) -> None:
    while True:
        try:
            if gone := await forget_once(store, settings, clock):
                log.info("forgot %d old rows", gone)
        except StokerError as error:
            log.warning("old rows could not be forgotten: %s", error.message)
        await asyncio.sleep(EVERY_SECONDS)
