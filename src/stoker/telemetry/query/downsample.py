"""Downsamples the samples of allocated GPUs into series.

A point is the mean of the samples that were taken in its step while the GPU was allocated.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.intervals import Interval, merge_intervals
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, SeriesPoint, TimeRange, last_places
from stoker.telemetry.tsdb.chunk_cache import MISSING
from stoker.telemetry.tsdb.codec import AGE_MS, Ages
from stoker.telemetry.tsdb.device_index import DeviceIndex

END_OF_TIME = 1 << 62
MAX_TICK_SKEW_MS = 60_000
"""The first tick that stores a sample is no further than this from the time when it was taken."""
DECIMALS = 4


class Downsampler:
    """Adds up sums and counts by GPU and point. Samples are added in any order, each once."""

    def __init__(self, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange) -> None:
        self.intervals = merge_allocations(allocations)
        self._span = span
        self._point_count = max(0, (span.end - span.start) // span.step + 1)
        self._from = np.array([interval.from_at for interval in self.intervals], np.int64)
        self._to = np.array([_interval_end(interval) for interval in self.intervals], np.int64)
        self.first_at = max(span.start - span.step + 1, int(self._from.min(initial=END_OF_TIME))) - MAX_TICK_SKEW_MS
        self.last_at = min(span.end, int(self._to.max(initial=0)) - 1) + MAX_TICK_SKEW_MS
        """The first and the last tick that can have samples of the range."""
        self._gpus = list(dict.fromkeys(interval.gpu for interval in self.intervals))
        line = {gpu: place for place, gpu in enumerate(self._gpus)}
        self._line_index = np.array([line[interval.gpu] for interval in self.intervals], np.intp)
        self._rows: dict[DeviceIndex, NDArray[np.intp]] = {}
        self._metrics = tuple(metrics)
        self._totals = np.zeros((2, len(self._metrics), len(self._gpus), self._point_count))
        """Sums and counts."""

    def intervals_between(self, from_at: int, to_at: int) -> NDArray[np.intp]:
        """The positions of the intervals that ticks in [from_at, to_at) can have samples of."""
        return np.flatnonzero((self._from < to_at + MAX_TICK_SKEW_MS) & (self._to > from_at - MAX_TICK_SKEW_MS))

    def device_rows(self, index: DeviceIndex) -> NDArray[np.intp]:
        """The row of each interval in a device index, or -1; looked up once per index."""
        if index not in self._rows:
            self._rows[index] = index.rows([interval.gpu for interval in self.intervals])
        return self._rows[index]

    def add(
        self,
        ats: NDArray[np.int64],
        places: NDArray[np.intp],
        numbers: NDArray[np.int32],
        units: NDArray[np.float64],
        ages: Ages | None = None,
    ) -> None:
        """Add quantized values [metric, place, tick] of the intervals at these places, at increasing times. `units`
        [metric, place] is the value of one step, 0 if it is not known. `ages` [place, tick] is by how much each
        sample is older than its tick."""
        if ages is not None:
            self._add_aged(ats[np.newaxis] - ages.astype(np.int64) * AGE_MS, places, numbers, units)
            return
        point = -((self._span.start - ats) // self._span.step)
        inside = slice(*np.searchsorted(point, (0, self._point_count)).tolist())
        ats, point, numbers = ats[inside], point[inside], numbers[..., inside]
        if not len(ats) or not len(places):
            return
        allocated = (ats >= self._from[places, np.newaxis]) & (ats < self._to[places, np.newaxis])
        taken = (numbers != MISSING) & allocated & (units > 0)[..., np.newaxis]
        sums = np.empty((2, *numbers.shape))
        np.multiply(numbers, taken, out=sums[0])
        sums[1] = taken
        begins = np.concatenate([[0], np.flatnonzero(point[1:] != point[:-1]) + 1])
        totals = np.add.reduceat(sums, begins, axis=3)
        totals[0] *= units[..., np.newaxis]
        lines, points = self._line_index[places], point[begins]
        if _is_consecutive(lines) and _is_consecutive(points):  # false if a GPU was allocated twice, or has a gap
            self._totals[..., lines[0] : lines[-1] + 1, points[0] : points[-1] + 1] += totals
        else:
            np.add.at(self._totals, np.ix_(*map(np.arange, totals.shape[:2]), lines, points), totals)

    def _add_aged(
        self,
        ats: NDArray[np.int64],
        places: NDArray[np.intp],
        numbers: NDArray[np.int32],
        units: NDArray[np.float64],
    ) -> None:
        """Add samples with their own times [place, tick]. A sample that several ticks have counts once."""
        point = -((self._span.start - ats) // self._span.step)
        allocated = (ats >= self._from[places, np.newaxis]) & (ats < self._to[places, np.newaxis])
        allocated[:, 1:] &= ats[:, 1:] != ats[:, :-1]
        row, column = np.nonzero(allocated & (point >= 0) & (point < self._point_count))
        found = numbers[:, row, column]
        taken = (found != MISSING) & (units[:, row] > 0)
        where = (np.arange(len(found))[:, np.newaxis], self._line_index[places[row]], point[row, column])
        np.add.at(self._totals[0], where, found * taken * units[:, row])
        np.add.at(self._totals[1], where, taken)

    def lines(self) -> dict[GpuMetric, list[GpuSeries]]:
        """By node and device; a GPU without samples has no series."""
        # Mostly a point has samples of every GPU or of none.
        sampled = np.flatnonzero(self._totals[1].any(axis=(0, 1)))
        sums, counts = self._totals[..., sampled]
        means = np.round(sums / np.maximum(counts, 1), DECIMALS)
        moments = (self._span.start + sampled * self._span.step).tolist()
        return {
            metric: [
                GpuSeries(gpu.node, gpu.device, _build_points(values, moments, known), gpu.uuid)
                for gpu, values, known in zip(self._gpus, rows, counts_by_gpu, strict=True)
                if any(known)
            ]
            for metric, rows, counts_by_gpu in zip(self._metrics, means.tolist(), counts.tolist(), strict=True)
        }


def _is_consecutive(places: NDArray[np.signedinteger]) -> bool:
    return bool((places[1:] - places[:-1] == 1).all())


def _build_points(values: list[float], moments: list[int], known: list[float]) -> list[SeriesPoint]:
    points = zip(values, moments, strict=True)
    return [*points] if all(known) else [*compress(points, known)]


def merge_allocations(allocations: Sequence[DeviceAllocation]) -> list[DeviceAllocation]:
    """By GPU, at its last place, and time, without overlaps: a GPU that is allocated twice at a moment is allocated."""
    intervals: defaultdict[str, list[Interval]] = defaultdict(list)
    for allocation in allocations:
        intervals[allocation.gpu.key].append((allocation.from_at, _interval_end(allocation)))
    return [
        DeviceAllocation(gpu.node, gpu.device, start, None if end == END_OF_TIME else end, gpu.uuid)
        for key, gpu in last_places(allocations).items()
        for start, end in merge_intervals(intervals[key])
    ]


def _interval_end(allocation: DeviceAllocation) -> int:
    return END_OF_TIME if allocation.to_at is None else allocation.to_at
