"""Columns of training points, and the merge of several sources into one series.

A source is a pod's log or the reports of code in a pod. If several sources of one attempt report one metric for the
same step, only the first counts. Repeated values of one source are separate points.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.metrics.training import TrainingPoint, TrainingSample

NO_STEP = -1

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class TrainingPoints(Struct, frozen=True):
    """Points in parallel columns; `metric` has indexes into `names`."""

    names: tuple[str, ...]
    metric: IntArray
    at: IntArray
    step: IntArray
    value: FloatArray

    def __len__(self) -> int:
        return len(self.at)

    def for_metric(self, metric: str) -> "TrainingPoints":
        """Only the points of one metric."""
        index = self.names.index(metric) if metric in self.names else -1
        return _select(self, self.metric == index)

    def split(self, size: int) -> Iterator["TrainingPoints"]:
        """Parts of at most `size` points, each with only the names that it needs."""
        if 0 < len(self) <= size:
            yield self
            return
        for first in range(0, len(self), size):
            part = _select(self, slice(first, first + size))
            used, metric = np.unique(part.metric, return_inverse=True)
            yield TrainingPoints(
                tuple(self.names[index] for index in used.tolist()), metric, part.at, part.step, part.value
            )

    def iter_points(self, first: int = 0, last: int | None = None) -> Iterator[TrainingPoint]:
        """The points from index `first` up to `last`."""
        columns = (column[first:last].tolist() for column in (self.metric, self.value, self.at, self.step))
        for metric, value, at, step in zip(*columns, strict=True):
            yield TrainingPoint(self.names[metric], value, at, None if step == NO_STEP else step)


class MetricCurve(Struct, frozen=True):
    """One metric: its number of points, and all of them or an even selection."""

    metric: str
    count: int
    points: list[TrainingPoint]


class SourcePoints(Struct, frozen=True):
    """Points of one source in one attempt."""

    source: str
    attempt: int
    points: TrainingPoints


def to_points(samples: Sequence[TrainingSample]) -> TrainingPoints:
    names: dict[str, int] = {}
    metric: list[int] = []
    at: list[int] = []
    step: list[int] = []
    value: list[float] = []
    for sample in samples:
        metric += [names.setdefault(name, len(names)) for name in sample.metrics]
        value += sample.metrics.values()
        at += [sample.at] * len(sample.metrics)
        step += [NO_STEP if sample.step is None else sample.step] * len(sample.metrics)
    return TrainingPoints(
        tuple(names),
        np.array(metric, np.int64),
        np.array(at, np.int64),
        np.array(step, np.int64),
        np.array(value, np.float64),
    )


def concatenate(parts: Sequence[TrainingPoints]) -> TrainingPoints:
    """All parts in order, with one list of names."""
    if not parts:
        return to_points(())
    names: dict[str, int] = {}
    metric = [_remap_metrics(part, names) for part in parts]
    return TrainingPoints(
        tuple(names),
        np.concatenate(metric),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def merge_sources(parts: Sequence[SourcePoints], start: int, end: int) -> TrainingPoints:
    """The points of a time range without duplicates, sorted by metric and time."""
    points = concatenate([part.points for part in parts])
    kept = (points.at >= start) & (points.at <= end)
    if len({(part.source, part.attempt) for part in parts}) > len({part.attempt for part in parts}):
        kept &= _is_from_first_source(points, parts)
    return _sort_and_deduplicate(points, kept)


def downsample_curves(points: TrainingPoints, limit: int) -> list[MetricCurve]:
    """Each metric with at most `limit` points, evenly selected; the first and the last are always included."""
    ends = np.searchsorted(points.metric, np.arange(len(points.names) + 1)).tolist()
    return [
        MetricCurve(name, last - first, list(_downsample(points, first, last, limit)))
        for name, first, last in zip(points.names, ends[:-1], ends[1:], strict=True)
        if last > first
    ]


def _downsample(points: TrainingPoints, first: int, last: int, limit: int) -> Iterator[TrainingPoint]:
    if last - first <= limit:
        return points.iter_points(first, last)
    return _select(points, first + np.linspace(0, last - 1 - first, limit).round().astype(np.int64)).iter_points()


def _select(points: TrainingPoints, indexes: IntArray | NDArray[np.bool_] | slice) -> TrainingPoints:
    return TrainingPoints(
        points.names, points.metric[indexes], points.at[indexes], points.step[indexes], points.value[indexes]
    )


def _remap_metrics(part: TrainingPoints, names: dict[str, int]) -> IntArray:
    indexes = [names.setdefault(name, len(names)) for name in part.names]
    return np.array(indexes, np.int64)[part.metric] if indexes else part.metric


def _is_from_first_source(points: TrainingPoints, parts: Sequence[SourcePoints]) -> NDArray[np.bool_]:
    """Which points come from the first source of their attempt that reported this metric for this step."""
    sources: Mapping[str, int] = {name: index for index, name in enumerate(sorted({part.source for part in parts}))}
    lengths = [len(part.points) for part in parts]
    source = np.repeat([sources[part.source] for part in parts], lengths)
    attempt = np.repeat([part.attempt for part in parts], lengths)
    order = np.lexsort((source, points.at, points.step, points.metric, attempt))
    keys = np.stack([attempt, points.metric, points.step])[:, order]
    starts_group = np.ones(len(points), dtype=bool)
    starts_group[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    first = source[order][np.flatnonzero(starts_group)][np.cumsum(starts_group) - 1]
    is_first = np.empty(len(points), dtype=bool)
    is_first[order] = (source[order] == first) | (points.step[order] == NO_STEP)
    return is_first


def _sort_and_deduplicate(points: TrainingPoints, kept: NDArray[np.bool_]) -> TrainingPoints:
    """Sort by metric, time and step; points that are equal in all columns were sent twice and are kept once."""
    names = tuple(sorted(points.names))
    metric = _remap_metrics(points, {name: number for number, name in enumerate(names)})
    points = _select(TrainingPoints(names, metric, points.at, points.step, points.value), kept)
    points = _select(points, np.lexsort((points.value, points.step, points.at, points.metric)))
    new = np.ones(len(points), dtype=bool)
    new[1:] = np.any([c[1:] != c[:-1] for c in (points.metric, points.at, points.step, points.value)], axis=0)
    return points if new.all() else _select(points, new)
