"""Exact statistics over the samples of an hour, by workload."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.usage.ledger import MemoryStats, UtilizationStats
from stoker.usage.inputs import AllocationIntervals, HourSamples

ALLOCATION_BATCH_SIZE = 512
"""Allocations per numpy operation, so that the data fits into the CPU cache."""
HISTOGRAM_BATCH_SIZE = 1 << 18
MAX_UTILIZATION = 10_000
"""100 percent in hundredths of a percent."""
QUANTILES = (0.50, 0.95)


class SampleStatistics:
    """Utilization values grouped by owner and sorted within each group; `_ends` has the group boundaries."""

    def __init__(self, values: NDArray[np.int16], counts: NDArray[np.int64], memory: NDArray[np.int64]) -> None:
        self._values = values
        self._ends = np.concatenate([[0], np.cumsum(counts)])
        self._memory = memory
        for first, last in pairwise(self._ends):
            values[first:last].sort()

    def utilization_by_owner(self) -> Iterator[UtilizationStats]:
        firsts, counts = self._ends[:-1], np.diff(self._ends)
        sums = np.concatenate([[0], np.cumsum(self._values, dtype=np.int64)])
        totals = sums[self._ends[1:]] - sums[firsts]
        edges = [self._values_at(firsts), self._values_at(self._ends[1:] - 1)]
        percentiles = [
            _percentile(lambda indexes: self._values_at(firsts + indexes), counts, quantile) for quantile in QUANTILES
        ]
        columns = (column.tolist() for column in (counts, totals, *edges, *percentiles))
        return (UtilizationStats(*row) if row[0] else UtilizationStats() for row in zip(*columns, strict=True))

    def memory_by_owner(self) -> Iterator[MemoryStats]:
        return (MemoryStats(*row) for row in self._memory.tolist())

    def _values_at(self, indexes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values at these indexes; arbitrary where the index is out of range."""
        if not len(self._values):
            return np.zeros(len(indexes), np.int64)
        return self._values[np.clip(indexes, 0, len(self._values) - 1)].astype(np.int64)

    def overall_utilization(self) -> UtilizationStats:
        """Statistics over all samples, by a histogram, because there are few distinct values."""
        counts = np.zeros(MAX_UTILIZATION + 1, np.int64)
        for first in range(0, len(self._values), HISTOGRAM_BATCH_SIZE):
            counts += np.bincount(self._values[first : first + HISTOGRAM_BATCH_SIZE], minlength=MAX_UTILIZATION + 1)
        ends = np.cumsum(counts)
        samples = int(ends[-1])
        if not samples:
            return UtilizationStats()
        total = int((counts * np.arange(len(counts))).sum())
        lowest, highest = (int(value) for value in np.searchsorted(ends, [0, samples - 1], side="right"))
        p50, p95 = (
            float(_percentile(lambda indexes: np.searchsorted(ends, indexes, side="right"), ends[-1:], quantile)[0])
            for quantile in QUANTILES
        )
        return UtilizationStats(samples, total, lowest, highest, p50, p95)


def gather_statistics(samples: HourSamples, at: int, allocations: AllocationIntervals) -> SampleStatistics:
    """Statistics of samples taken during allocations. A sample repeated at several ticks counts once."""
    first_tick, last_tick = np.searchsorted(samples.tick_times, [at, at + HOUR_MS]).tolist()
    inside = slice(first_tick, last_tick)
    utilization, memory = samples.utilization[:, inside], samples.memory[:, inside]
    counts = np.zeros(len(allocations.owners), np.int64)
    memories = np.zeros((len(allocations.owners), 4), np.int64)
    values = [np.zeros(0, np.int16)]
    for first in range(0, len(allocations), ALLOCATION_BATCH_SIZE):
        batch = slice(first, first + ALLOCATION_BATCH_SIZE)
        owner, gpu = allocations.owner[batch], allocations.gpu[batch]
        taken_at = samples.sampled_at(gpu)
        ats = taken_at[:, inside]
        is_allocated = (ats >= allocations.from_at[batch, None]) & (ats < allocations.to_at[batch, None])
        if samples.age is not None:
            is_allocated &= _is_new_sample(taken_at)[:, inside]
        readings = utilization[gpu]
        is_counted = is_allocated & (readings >= 0)
        np.add.at(counts, owner, is_counted.sum(axis=1))
        values.append(np.clip(readings[is_counted], 0, MAX_UTILIZATION))
        used = memory[gpu]
        known = is_allocated & (used >= 0)
        used *= known
        memory_samples = known.sum(axis=1)
        np.add.at(memories[:, 0], owner, memory_samples)
        np.add.at(memories[:, 1], owner, used.sum(axis=1, dtype=np.int64))
        np.maximum.at(memories[:, 2], owner, used.max(axis=1, initial=0))
        np.add.at(memories[:, 3], owner, memory_samples * samples.memory_size[gpu])
    return SampleStatistics(np.concatenate(values), counts, memories)


def _is_new_sample(taken_at: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which samples differ from that of the tick before."""
    new = np.ones(taken_at.shape, np.bool_)
    new[:, 1:] = taken_at[:, 1:] != taken_at[:, :-1]
    return new


def _percentile(
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]], counts: NDArray[np.int64], quantile: float
) -> NDArray[np.float64]:
    """The quantile of each owner, interpolated linearly between neighbouring values."""
    indexes = (counts - 1) * quantile
    below = indexes.astype(np.int64)
    low, high = at(below), at(np.minimum(below + 1, counts - 1))
    return low + (high - low) * (indexes % 1)
