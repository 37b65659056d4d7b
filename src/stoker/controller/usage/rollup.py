"""Closes hours: within two minutes of their end, oldest first, and again when something came late.

An hour is read, folded and written in one transaction; a crash before that leaves it due, and closing it twice gives
the same rows. Hours that passed while nobody was there are closed from what is known of them.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from msgspec import Struct

from stoker.controller.behind import Behind
from stoker.controller.fleet import Fleet
from stoker.domain.clock import HOUR_MS, Clock, rfc3339
from stoker.store import gpu_spans, usage, usage_facts, workspaces
from stoker.store.base import Store, Transaction
from stoker.store.gpu_spans import Span
from stoker.store.usage import ClosedHour, DueHour
from stoker.usage.facts import Hour, Measured, reaches
from stoker.usage.hour import close
from stoker.usage.levels import levels

LATE_MS = 45_000
"""How long after its end an hour is closed: the last readings and the ends of pods are in by then."""
AT_ONCE = 96
"""Hours that are looked up together when many are due."""
FOLDED = 24
"""Hours that are read together."""
ROWS = 2000
"""So many workloads are written together, or one hour if that has more: others want to write too."""
LOOK_SECONDS = 5.0

log = logging.getLogger("stoker.usage")


class _Closed(Struct, frozen=True):
    due: DueHour
    hour: ClosedHour

    @property
    def rows(self) -> int:
        return len(self.hour.levels.workloads)


class Rollup:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, idle_percent: float) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._idle_up_to = round(idle_percent * 100)

    async def run(self) -> None:
        while True:
            await self.catch_up()
            await asyncio.sleep(LOOK_SECONDS)

    async def catch_up(self) -> int:
        """Close everything that is due; says how many hours."""
        done = 0
        while hours := await self._due():
            await self._close(hours)
            done += len(hours)
            if done > AT_ONCE:
                log.info("closed %d hours, up to %s", done, rfc3339(hours[-1].hour_at))
        return done

    async def _close(self, hours: Sequence[DueHour]) -> None:
        """While one part is written the next is read."""
        async with Behind() as behind:
            for first in range(0, len(hours), FOLDED):
                some = hours[first : first + FOLDED]
                closed = await self._store.read(lambda tx, h=some: self._closed(tx, h))
                await behind.give(self._write(closed))

    async def _write(self, closed: Sequence[_Closed]) -> None:
        """Oldest first; an hour is written whole or not at all."""
        for few in _together(closed):
            await self._store.write(lambda tx, c=few: self._put(tx, c))

    async def _due(self) -> list[DueHour]:
        """Some of the hours that are over and not closed, oldest first; those that have just ended are among them."""
        before = (self._clock.now() - LATE_MS) // HOUR_MS * HOUR_MS
        if new := await self._store.peek(lambda tx: self._new_hours(tx, before)):
            await self._store.write(lambda tx: usage.need_close(tx, self._cluster_id, new))
        return await self._store.read(lambda tx: usage.due(tx, self._cluster_id, before, AT_ONCE))

    def _new_hours(self, transaction: Transaction, before: int) -> list[int]:
        """Every hour that is over since the last one that is known, or since there are GPUs; and those that were closed
        before they were over, which are closed again when they are."""
        last = usage.last_hour(transaction, self._cluster_id)
        first = gpu_spans.first_at(transaction, self._cluster_id) if last is None else last + HOUR_MS
        over = range(before if first is None else first // HOUR_MS * HOUR_MS, before, HOUR_MS)
        return [*over, *usage.closed_too_soon(transaction, self._cluster_id, before)]

    def _closed(self, transaction: Transaction, hours: Sequence[DueHour]) -> list[_Closed]:
        """Hours folded from one view."""
        begin, end = hours[0].hour_at, hours[-1].hour_at + HOUR_MS
        spans = gpu_spans.during(transaction, self._cluster_id, begin, end)
        held = usage_facts.held(transaction, self._cluster_id, begin, end)
        whose = usage_facts.workloads(transaction, {each.workload_uid for each in held})
        quotas = {
            each.namespace: -(-each.quota.gpu_milli // 1000)
            for each in workspaces.of_cluster(transaction, self._cluster_id)
            if each.quota.gpu_milli is not None
        }
        found = []
        fleet = Fleet(spans, held)
        for hour in hours:
            there = Fleet(_within(spans, hour.hour_at), held) if fleet.changes else fleet
            use = close(self._hour(transaction, hour.hour_at, there))
            payers = whose.at(hour.hour_at + HOUR_MS, {each.uid for each in use.uses})
            found.append(_Closed(hour, ClosedHour(levels(use, payers, quotas), use.entries, payers)))
        return found

    def _hour(self, transaction: Transaction, at: int, fleet: Fleet) -> Hour:
        readings = fleet.readings(transaction, self._cluster_id, at)
        measured = Measured(
            readings.ats, reaches(readings.ats), readings.utilization, readings.memory, fleet.memory_size
        )
        return Hour(at, fleet.models, fleet.present, fleet.faulty, fleet.holds, measured, self._idle_up_to)

    def _put(self, transaction: Transaction, hours: Sequence[_Closed]) -> None:
        now = self._clock.now()
        usage.put_hours(transaction, self._cluster_id, [each.hour for each in hours], now)
        for each in hours:
            usage.closed(transaction, self._cluster_id, each.due, now)


def _within(spans: Sequence[Span], at: int) -> list[Span]:
    return [span for span in spans if span.from_at < at + HOUR_MS and span.to_at > at]


def _together(closed: Sequence[_Closed]) -> Iterator[list[_Closed]]:
    few: list[_Closed] = []
    rows = 0
    for hour in closed:
        if few and rows + hour.rows > ROWS:
            yield few
            few, rows = [], 0
        few.append(hour)
        rows += hour.rows
    if few:
        yield few
