"""What pods said over a range, by the equal parts of it and for all of them together.

A part is (t - step, t]. A count grows by what it is more than before; when it is less, its server began again from
nothing. Pods come one after the other, so that only one is in memory.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from stoker.domain.pod_samples import PodBlock, PodMetric, bounds, bucket
from stoker.domain.series import Point, Range
from stoker.domain.workload import Pod

QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
DONE = bucket(PodMetric.LATENCY_SECONDS, math.inf)
"""Counts every request that has a latency."""
Floats = NDArray[np.float64]
Histogram = Mapping[float, float]
"""How many were not above each bound, in the order of the bounds; the last bound is infinite."""


class PodParts:
    def __init__(self, span: Range) -> None:
        self._span = span
        self._parts = (span.end - span.start) // span.step + 1
        self._means: dict[str, Floats] = {}
        self._counts: dict[str, Floats] = {}
        self._lasts: dict[str, Floats] = {}
        self._grown: dict[str, Floats] = {}
        self._pods: dict[str, int] = {}

    def add(self, blocks: Iterable[PodBlock], pods: Mapping[str, Pod], from_at: int) -> None:
        """All blocks of these pods, pod after pod; what there is was read from this moment on."""
        one: _OnePod | None = None
        for block in blocks:
            if one is None or one.uid != block.pod_uid:
                self._finish(one)
                began = pods[block.pod_uid].started_at or pods[block.pod_uid].created_at
                one = _OnePod(block.pod_uid, self._span, self._parts, whole=began >= from_at)
            one.add(block)
        self._finish(one)

    def means(self, name: str) -> list[Point]:
        """The mean of each pod in a part, averaged over the pods."""
        return self._points(self._means.get(name), self._counts.get(name))

    def sums(self, name: str) -> list[Point]:
        """The mean of each pod in a part, added up."""
        return self._points(self._means.get(name))

    def lasts(self, name: str) -> list[Point]:
        """What each pod said last in a part, added up."""
        return self._points(self._lasts.get(name))

    def throughput(self) -> list[Point]:
        """Requests a second that were done with."""
        seconds = self._span.step / 1000
        return [(count / seconds, at) for count, at in self._points(self._grown.get(DONE))]

    def latency(self) -> list[Point]:
        """The mean of the requests of each part, in milliseconds; none of a part without any."""
        took = {at: seconds for seconds, at in self._points(self._grown.get(PodMetric.LATENCY_SUM))}
        done = self._points(self._grown.get(DONE))
        return [(took[at] / count * 1000, at) for count, at in done if count > 0 and at in took]

    def histograms(self, metric: PodMetric) -> list[tuple[Histogram, int]]:
        """What was counted in each part that anything is known of; with the bounds that all pods have."""
        found = bounds(metric, self._grown)
        most = max((self._pods[name] for name in found.values()), default=0)
        shared = {bound: self._grown[name] for bound, name in found.items() if self._pods[name] == most}
        if math.inf not in shared:
            return []
        known = ~np.isnan(shared[math.inf])
        return [
            ({bound: float(np.nan_to_num(values[part])) for bound, values in shared.items()}, self._at(part))
            for part in np.flatnonzero(known).tolist()
        ]

    def _finish(self, one: "_OnePod | None") -> None:
        if one is None:
            return
        for name, (sums, counts) in one.sums.items():
            spoke = counts > 0
            mean = np.divide(sums, counts, out=np.full(self._parts, np.nan), where=spoke)
            self._means[name] = _plus(self._means.get(name), mean)
            self._counts[name] = self._counts.get(name, np.zeros(self._parts)) + spoke
            self._lasts[name] = _plus(self._lasts.get(name), one.lasts[name])
            self._grown[name] = _plus(self._grown.get(name), one.grown[name])
            self._pods[name] = self._pods.get(name, 0) + 1

    def _points(self, values: Floats | None, divided_by: Floats | None = None) -> list[Point]:
        if values is None:
            return []
        known = np.flatnonzero(~np.isnan(values))
        shown = values[known] / (1 if divided_by is None else divided_by[known])
        return [(value, self._at(part)) for value, part in zip(shown.tolist(), known.tolist(), strict=True)]

    def _at(self, part: int) -> int:
        return self._span.start + part * self._span.step


class _OnePod:
    """`whole` is whether all that it ever said is in the blocks, so that its counts begin at nothing."""

    def __init__(self, uid: str, span: Range, parts: int, *, whole: bool) -> None:
        self.uid = uid
        self.sums: dict[str, tuple[Floats, Floats]] = {}
        self.lasts: dict[str, Floats] = {}
        self.grown: dict[str, Floats] = {}
        self._span = span
        self._parts = parts
        self._begins_at_nothing = whole
        self._before: dict[str, float] = {}

    def add(self, block: PodBlock) -> None:
        if not block.at:
            return
        places = -((self._span.start - np.array(block.at, np.int64)) // self._span.step)
        for name, column in block.columns.items():
            values = np.array(column, np.float64)
            known = ~np.isnan(values)
            if known.any():
                self._add(name, places[known], values[known])
        self._begins_at_nothing = True

    def _add(self, name: str, places: NDArray[np.int64], values: Floats) -> None:
        if name not in self.sums:
            self.sums[name] = (np.zeros(self._parts), np.zeros(self._parts))
            self.lasts[name] = np.full(self._parts, np.nan)
            self.grown[name] = np.full(self._parts, np.nan)
        more, moved = self._more(name, values), places
        if len(more) < len(values):
            moved = places[1:]
        inside = (moved >= 0) & (moved < self._parts)
        grown = self.grown[name]
        grown[moved[inside]] = np.nan_to_num(grown[moved[inside]])
        np.add.at(grown, moved[inside], more[inside])
        inside = (places >= 0) & (places < self._parts)
        sums, counts = self.sums[name]
        np.add.at(sums, places[inside], values[inside])
        np.add.at(counts, places[inside], 1)
        self.lasts[name][places[inside]] = values[inside]

    def _more(self, name: str, values: Floats) -> Floats:
        """By how much each is more than the one before; the first is left out when nothing is known before it."""
        first = self._before.get(name, 0.0 if self._begins_at_nothing else None)
        self._before[name] = float(values[-1])
        before = values[:-1] if first is None else np.concatenate([[first], values[:-1]])
        after = values[1:] if first is None else values
        return np.where(after >= before, after - before, after)


def _plus(total: Floats | None, more: Floats) -> Floats:
    """Added up where anything is known."""
    if total is None:
        return more
    return np.where(np.isnan(total), more, np.where(np.isnan(more), total, total + more))


def percentiles(histogram: Histogram) -> dict[str, float]:
    """As Prometheus estimates them: evenly spread between two bounds. None of nothing."""
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
