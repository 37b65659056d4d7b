"""Aggregation of pod samples over the steps of a range, for all pods together.

The step at t covers (t - step, t]. A counter that decreases was reset to zero. Samples are added pod by pod, so that
only one pod is in memory.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from stoker.domain.metrics.pod_samples import PodMetric, PodSampleBlock, bucket_name, bucket_names_by_bound
from stoker.domain.metrics.series import SeriesPoint, TimeRange
from stoker.domain.workload.pod import Pod

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
REQUESTS_COMPLETED = bucket_name(PodMetric.LATENCY_SECONDS, math.inf)
"""Counts every request that has a latency."""
Floats = NDArray[np.float64]
Histogram = Mapping[float, float]
"""The cumulative count at each bound, ordered by bound; the last bound is infinite."""


class PodAggregator:
    def __init__(self, span: TimeRange) -> None:
        self._span = span
        self._step_count = (span.end - span.start) // span.step + 1
        self._means: dict[str, Floats] = {}
        self._counts: dict[str, Floats] = {}
        self._lasts: dict[str, Floats] = {}
        self._increases: dict[str, Floats] = {}
        self._pod_counts: dict[str, int] = {}

    def add_blocks(self, blocks: Iterable[PodSampleBlock], pods: Mapping[str, Pod], from_at: int) -> None:
        """Add the blocks of these pods, ordered by pod. `from_at` is the start of the time that was read."""
        current: _PodAccumulator | None = None
        for block in blocks:
            if current is None or current.uid != block.pod_uid:
                self._add_pod(current)
                started_at = pods[block.pod_uid].started_at or pods[block.pod_uid].created_at
                current = _PodAccumulator(block.pod_uid, self._span, self._step_count, whole=started_at >= from_at)
            current.add(block)
        self._add_pod(current)

    def mean_points(self, name: str) -> list[SeriesPoint]:
        """The mean of each pod in a step, averaged over the pods."""
        return self._points(self._means.get(name), self._counts.get(name))

    def sum_points(self, name: str) -> list[SeriesPoint]:
        """The mean of each pod in a step, summed over the pods."""
        return self._points(self._means.get(name))

    def last_points(self, name: str) -> list[SeriesPoint]:
        """The last value of each pod in a step, summed over the pods."""
        return self._points(self._lasts.get(name))

    def throughput(self) -> list[SeriesPoint]:
        """Completed requests per second."""
        seconds = self._span.step / 1000
        return [(count / seconds, at) for count, at in self._points(self._increases.get(REQUESTS_COMPLETED))]

    def latency(self) -> list[SeriesPoint]:
        """The mean latency of the requests of each step in milliseconds; a step without requests has no point."""
        latency_sums = {at: seconds for seconds, at in self._points(self._increases.get(PodMetric.LATENCY_SUM))}
        completed = self._points(self._increases.get(REQUESTS_COMPLETED))
        return [(latency_sums[at] / count * 1000, at) for count, at in completed if count > 0 and at in latency_sums]

    def histograms(self, metric: PodMetric) -> list[tuple[Histogram, int]]:
        """The histogram of each step with samples, with the bounds that all pods share."""
        names = bucket_names_by_bound(metric, self._increases)
        pod_count = max((self._pod_counts[name] for name in names.values()), default=0)
        shared = {bound: self._increases[name] for bound, name in names.items() if self._pod_counts[name] == pod_count}
        if math.inf not in shared:
            return []
        known = ~np.isnan(shared[math.inf])
        return [
            ({bound: float(np.nan_to_num(values[step])) for bound, values in shared.items()}, self._time_of(step))
            for step in np.flatnonzero(known).tolist()
        ]

    def _add_pod(self, pod: "_PodAccumulator | None") -> None:
        if pod is None:
            return
        for name, (sums, counts) in pod.sums.items():
            has_samples = counts > 0
            mean = np.divide(sums, counts, out=np.full(self._step_count, np.nan), where=has_samples)
            self._means[name] = _add_known(self._means.get(name), mean)
            self._counts[name] = self._counts.get(name, np.zeros(self._step_count)) + has_samples
            self._lasts[name] = _add_known(self._lasts.get(name), pod.lasts[name])
            self._increases[name] = _add_known(self._increases.get(name), pod.increases[name])
            self._pod_counts[name] = self._pod_counts.get(name, 0) + 1

    def _points(self, values: Floats | None, divided_by: Floats | None = None) -> list[SeriesPoint]:
        if values is None:
            return []
        known = np.flatnonzero(~np.isnan(values))
        quotients = values[known] / (1 if divided_by is None else divided_by[known])
        return [(value, self._time_of(step)) for value, step in zip(quotients.tolist(), known.tolist(), strict=True)]

    def _time_of(self, step: int) -> int:
        return self._span.start + step * self._span.step


class _PodAccumulator:
    """The samples of one pod. `whole`: all samples of the pod are in the blocks, so its counters start at zero."""

    def __init__(self, uid: str, span: TimeRange, step_count: int, *, whole: bool) -> None:
        self.uid = uid
        self.sums: dict[str, tuple[Floats, Floats]] = {}
        self.lasts: dict[str, Floats] = {}
        self.increases: dict[str, Floats] = {}
        self._span = span
        self._step_count = step_count
        self._starts_at_zero = whole
        self._previous: dict[str, float] = {}

    def add(self, block: PodSampleBlock) -> None:
        if not block.at:
            return
        steps = -((self._span.start - np.array(block.at, np.int64)) // self._span.step)
        for name, column in block.columns.items():
            values = np.array(column, np.float64)
            known = ~np.isnan(values)
            if known.any():
                self._add(name, steps[known], values[known])
        self._starts_at_zero = True

    def _add(self, name: str, steps: NDArray[np.int64], values: Floats) -> None:
        if name not in self.sums:
            self.sums[name] = (np.zeros(self._step_count), np.zeros(self._step_count))
            self.lasts[name] = np.full(self._step_count, np.nan)
            self.increases[name] = np.full(self._step_count, np.nan)
        increases = self._counter_increases(name, values)
        increase_steps = steps[1:] if len(increases) < len(values) else steps
        in_range = (increase_steps >= 0) & (increase_steps < self._step_count)
        totals = self.increases[name]
        totals[increase_steps[in_range]] = np.nan_to_num(totals[increase_steps[in_range]])
        np.add.at(totals, increase_steps[in_range], increases[in_range])
        in_range = (steps >= 0) & (steps < self._step_count)
        sums, counts = self.sums[name]
        np.add.at(sums, steps[in_range], values[in_range])
        np.add.at(counts, steps[in_range], 1)
        self.lasts[name][steps[in_range]] = values[in_range]

    def _counter_increases(self, name: str, values: Floats) -> Floats:
        """The increase of each value over the one before; without a value before it, the first has none."""
        first = self._previous.get(name, 0.0 if self._starts_at_zero else None)
        self._previous[name] = float(values[-1])
        before = values[:-1] if first is None else np.concatenate([[first], values[:-1]])
        after = values[1:] if first is None else values
        return np.where(after >= before, after - before, after)


def _add_known(total: Floats | None, more: Floats) -> Floats:
    """The sum of two arrays in which NaN is an unknown value."""
    if total is None:
        return more
    return np.where(np.isnan(total), more, np.where(np.isnan(more), total, total + more))


def percentiles(histogram: Histogram) -> dict[str, float]:
    """Quantiles by linear interpolation between bounds, as Prometheus does; empty for an empty histogram."""
    total = histogram.get(math.inf, 0.0)
    return {name: _quantile(histogram, share * total) for name, share in QUANTILES.items()} if total > 0 else {}


def _quantile(histogram: Histogram, rank: float) -> float:
    lower, below = 0.0, 0.0
    for bound, count in histogram.items():
        if count >= rank:
            inside = count - below
            return lower if math.isinf(bound) or inside <= 0 else lower + (bound - lower) * (rank - below) / inside
        lower, below = bound, count
    return lower
