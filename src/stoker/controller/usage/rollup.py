"""Closes usage hours: within two minutes of their end, oldest first, and again after late data.

An hour is read, aggregated and written in one transaction. A crash before that leaves it due, and closing it twice
gives the same rows. Hours that passed while no server ran are closed from the data that exists.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from stoker.concurrency.pipelined_writer import PipelinedWriter
from stoker.controller.usage.gpu_timeline import GpuTimeline
from stoker.domain.clock import HOUR_MS, Clock, format_rfc3339
from stoker.domain.cluster.resources import MILLI
from stoker.domain.workload.idle import quantize_threshold
from stoker.store.cluster import gpu_availability
from stoker.store.cluster.gpu_availability import GpuInterval
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.usage import closed_hours, hour_facts, value_history
from stoker.store.usage.closed_hours import ClosedHour, DueHour
from stoker.telemetry.tsdb.codec import AGE_MS
from stoker.usage.inputs import HourInputs, HourSamples, sample_validity
from stoker.usage.ledger import close_hour
from stoker.usage.rollups import build_rollups

CLOSE_DELAY_MS = 45_000
"""How long after its end an hour is closed, so that the last samples and pod ends are stored by then."""
DUE_BATCH_SIZE = 96
"""How many due hours are looked up together."""
READ_BATCH_SIZE = 24
"""How many hours are read together."""
WRITE_BATCH_SIZE = 2000
"""How many workloads are written together, but at least one hour, so that other writers get their turn."""
POLL_SECONDS = 5.0

log = logging.getLogger("stoker.usage")


class _RolledUpHour(Struct, frozen=True):
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
        self._idle_steps = quantize_threshold(idle_percent)

    async def run(self) -> None:
        while True:
            await self.catch_up()
            await self._clock.sleep(POLL_SECONDS)

    async def catch_up(self) -> int:
        """Close all hours that are due. Returns how many."""
        done = 0
        while hours := await self._due_hours():
            await self._close_hours(hours)
            done += len(hours)
            if done > DUE_BATCH_SIZE:
                log.info("closed %d hours, up to %s", done, format_rfc3339(hours[-1].hour_at))
        return done

    async def _close_hours(self, hours: Sequence[DueHour]) -> None:
        """Read the next batch while one is written."""
        async with PipelinedWriter() as behind:
            for first in range(0, len(hours), READ_BATCH_SIZE):
                some = hours[first : first + READ_BATCH_SIZE]
                closed = await self._store.read(lambda tx, h=some: self._compute_hours(tx, h))
                await behind.submit(self._write(closed))

    async def _write(self, closed: Sequence[_RolledUpHour]) -> None:
        """Write hours oldest first, each as a whole."""
        for few in _write_batches(closed):
            await self._store.write(lambda tx, c=few: self._put(tx, c))

    async def _due_hours(self) -> list[DueHour]:
        """The oldest due hours; those that have just ended are among them."""
        before = (self._clock.now() - CLOSE_DELAY_MS) // HOUR_MS * HOUR_MS
        if new := await self._store.read_inline(lambda tx: self._new_hours(tx, before)):
            await self._store.write(lambda tx: closed_hours.mark_due(tx, self._cluster_id, new))
        return await self._store.read(lambda tx: closed_hours.due_hours(tx, self._cluster_id, before, DUE_BATCH_SIZE))

    def _new_hours(self, transaction: Transaction, before: int) -> list[int]:
        """All hours since the last known one, or since the cluster has GPUs; and hours that were closed before their
        end, which are closed again."""
        last = closed_hours.last_hour(transaction, self._cluster_id)
        first = gpu_availability.first_gpu_at(transaction, self._cluster_id) if last is None else last + HOUR_MS
        begin = before if first is None else max(first // HOUR_MS * HOUR_MS, closed_hours.retained_from(transaction))
        over = range(begin, before, HOUR_MS)
        return [*over, *closed_hours.hours_closed_early(transaction, self._cluster_id, before)]

    def _compute_hours(self, transaction: Transaction, hours: Sequence[DueHour]) -> list[_RolledUpHour]:
        """Hours aggregated from one timeline."""
        begin, end = hours[0].hour_at, hours[-1].hour_at + HOUR_MS
        spans = gpu_availability.intervals_in_range(transaction, self._cluster_id, begin, end)
        held = hour_facts.allocations_in_range(transaction, self._cluster_id, begin, end)
        whose = hour_facts.read_workload_facts(transaction, {each.workload_uid for each in held})
        places = workspaces.of_cluster(transaction, self._cluster_id)
        quotas = value_history.quota_history(transaction, places, self._cluster_id, begin)
        found = []
        fleet = GpuTimeline(spans, held)
        for hour in hours:
            there = GpuTimeline(_spans_within(spans, hour.hour_at), held) if fleet.has_replacements else fleet
            use = close_hour(self._hour_inputs(transaction, hour.hour_at, there))
            payers = whose.cost_owners_of_hour(hour.hour_at, {each.uid for each in use.workloads})
            granted = {name: -(-milli // MILLI) for name, milli in quotas.quotas_at(hour.hour_at + HOUR_MS).items()}
            found.append(_RolledUpHour(hour, ClosedHour(build_rollups(use, payers, granted), use.entries, payers)))
        return found

    def _hour_inputs(self, transaction: Transaction, at: int, fleet: GpuTimeline) -> HourInputs:
        readings = fleet.hour_matrix(transaction, self._cluster_id, at)
        measured = HourSamples(
            readings.ats,
            sample_validity(readings.ats),
            readings.utilization,
            readings.memory,
            readings.memory_size,
            None if readings.ages is None else readings.ages * np.int32(AGE_MS),
        )
        return HourInputs(at, fleet.models, fleet.present, fleet.faulty, fleet.allocations, measured, self._idle_steps)

    def _put(self, transaction: Transaction, hours: Sequence[_RolledUpHour]) -> None:
        now = self._clock.now()
        closed_hours.write_hours(transaction, self._cluster_id, [each.hour for each in hours], now)
        for each in hours:
            closed_hours.mark_closed(transaction, self._cluster_id, each.due, now)


def _spans_within(spans: Sequence[GpuInterval], at: int) -> list[GpuInterval]:
    return [span for span in spans if span.from_at < at + HOUR_MS and span.to_at > at]


def _write_batches(closed: Sequence[_RolledUpHour]) -> Iterator[list[_RolledUpHour]]:
    few: list[_RolledUpHour] = []
    rows = 0
    for hour in closed:
        if few and rows + hour.rows > WRITE_BATCH_SIZE:
            yield few
            few, rows = [], 0
        few.append(hour)
        rows += hour.rows
    if few:
        yield few
