"""Computes since when GPUs have been idle from stored samples, for a start at which no idle times are known.

The samples are read backwards, block by block, and only of GPUs that were idle in all later ones: most GPUs are busy,
so little is read of them. The result is what `IdleTracker` would have found by following the samples forwards.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.workload.idle import quantize_threshold
from stoker.store.db.base import Transaction
from stoker.store.workloads import allocations
from stoker.store.workloads.allocations import RunningAllocation
from stoker.telemetry.idle.tracker import IdleGpu
from stoker.telemetry.tsdb import reader
from stoker.telemetry.tsdb.codec import AGE_MS, QUANTIZATIONS, Ages, QuantizedArray
from stoker.telemetry.tsdb.reader import DeviceIndexCache

MAX_LOOKBACK_MS = 168 * HOUR_MS
"""GPUs that have been idle for longer are reported as idle since then."""
HEAD_TICK_BATCH_SIZE = 40
UTILIZATION = GpuMetric.UTILIZATION
MISSING = QUANTIZATIONS[UTILIZATION].missing


def backfill_idle(transaction: Transaction, cluster_id: str, idle_percent: float, now: int) -> list[IdleGpu]:
    """The GPUs of running workloads whose last sample is idle and at most `MAX_SAMPLE_GAP_MS` old."""
    scan = _BackwardScan(allocations.running_allocations(transaction, cluster_id), idle_percent, now)
    indexes = DeviceIndexCache()
    oldest = max(0, now - MAX_LOOKBACK_MS)
    for block in reader.blocks_newest_first(transaction, cluster_id, oldest, now + 1, HEAD_TICK_BATCH_SIZE):
        places = scan.still_idle(block.last_at)
        if not len(places):
            break
        rows = indexes.get(transaction, block.device_index_id).rows(
            [scan.allocations[place].gpu for place in places.tolist()]
        )
        places, rows = places[rows >= 0], rows[rows >= 0]
        chunk_of_row = rows // block.chunk_gpus * block.chunk_gpus
        for first_gpu in np.unique(chunk_of_row).tolist():
            samples = block.read(transaction, first_gpu, [UTILIZATION])
            if samples is not None:
                in_chunk = chunk_of_row == first_gpu
                gpus = rows[in_chunk] - first_gpu
                ages = None if samples.ages is None else samples.ages[gpus]
                scan.add(places[in_chunk], samples.ats, samples.values[UTILIZATION][gpus], ages)
    return scan.idle_gpus()


class _BackwardScan:
    """Follows the samples of allocations back in time. `_since` is the earliest idle sample of each allocation from
    which on all were idle; the current time while there is none."""

    def __init__(self, running: Sequence[RunningAllocation], idle_percent: float, now: int) -> None:
        self.allocations = running
        self._idle_steps = quantize_threshold(idle_percent)
        self._now = now
        self._from = np.array([allocation.since for allocation in running], np.int64)
        self._since = np.full(len(running), now, np.int64)
        self._ended = np.zeros(len(running), np.bool_)

    def still_idle(self, at: int) -> NDArray[np.intp]:
        """The allocations whose idle time may have begun at `at` or before."""
        return np.flatnonzero(~self._ended & (self._from <= at) & (self._since - at <= MAX_SAMPLE_GAP_MS))

    def add(self, places: NDArray[np.intp], ats: NDArray[np.int64], steps: QuantizedArray, ages: Ages | None) -> None:
        """Add the quantized utilization [allocation, tick] of these allocations, at increasing times before those that
        were added; `ages` is by how much each sample is older than its tick."""
        since = self._since[places, np.newaxis]
        sampled_at = ats if ages is None else ats - ages.astype(np.int64) * AGE_MS
        is_sample = (steps != MISSING) & (sampled_at >= self._from[places, np.newaxis]) & (ats < since)
        later = np.where(is_sample, ats, since)[:, ::-1]
        next_sample = np.minimum.accumulate(np.hstack([since, later]), axis=1)[:, -2::-1]
        ends = is_sample & ((steps > self._idle_steps) | (next_sample - ats > MAX_SAMPLE_GAP_MS))
        first_idle = np.where(ends.any(axis=1), len(ats) - ends[:, ::-1].argmax(axis=1), 0)
        idle = is_sample & (np.arange(len(ats)) >= first_idle[:, np.newaxis])
        self._since[places] = np.where(idle, ats, since).min(axis=1)
        self._ended[places] = first_idle > 0

    def idle_gpus(self) -> list[IdleGpu]:
        found = ((self.allocations[place], place) for place in np.flatnonzero(self._since < self._now).tolist())
        return [
            IdleGpu(*allocation.gpu[:2], allocation.slug, int(self._since[place]), allocation.gpu.uuid)
            for allocation, place in found
        ]
