"""Many training points at once, in columns, and how those of several sources become one series.

A source is a pod's log, or what code in a pod reported. What several sources of one attempt say of the same metric at
the same step is one thing said several times: the first to say it counts. What one source says twice are two points.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.training import Measured, TrainingPoint

NO_STEP = -1

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Points(Struct, frozen=True):
    """One place in every column is one point; `metric` holds places in `names`."""

    names: tuple[str, ...]
    metric: Integers
    at: Integers
    step: Integers
    value: Floats

    def __len__(self) -> int:
        return len(self.at)

    def of(self, metric: str) -> "Points":
        """Only the points of one metric."""
        place = self.names.index(metric) if metric in self.names else -1
        return _taken(self, self.metric == place)

    def parts(self, size: int) -> Iterator["Points"]:
        """So many points at a time, each part with the names that it needs."""
        if 0 < len(self) <= size:
            yield self
            return
        for first in range(0, len(self), size):
            part = _taken(self, slice(first, first + size))
            used, metric = np.unique(part.metric, return_inverse=True)
            yield Points(tuple(self.names[place] for place in used.tolist()), metric, part.at, part.step, part.value)

    def rows(self, first: int = 0, last: int | None = None) -> Iterator[TrainingPoint]:
        """The points from one place to another."""
        columns = (column[first:last].tolist() for column in (self.metric, self.value, self.at, self.step))
        for metric, value, at, step in zip(*columns, strict=True):
            yield TrainingPoint(self.names[metric], value, at, None if step == NO_STEP else step)


class Curve(Struct, frozen=True):
    """One metric: how many points it has, and all of them, or a part from the first to the last."""

    metric: str
    count: int
    points: list[TrainingPoint]


class Part(Struct, frozen=True):
    """Points of one source in one attempt."""

    source: str
    attempt: int
    points: Points


def columns(measured: Sequence[Measured]) -> Points:
    names: dict[str, int] = {}
    metric: list[int] = []
    at: list[int] = []
    step: list[int] = []
    value: list[float] = []
    for each in measured:
        metric += [names.setdefault(name, len(names)) for name in each.metrics]
        value += each.metrics.values()
        at += [each.at] * len(each.metrics)
        step += [NO_STEP if each.step is None else each.step] * len(each.metrics)
    return Points(
        tuple(names),
        np.array(metric, np.int64),
        np.array(at, np.int64),
        np.array(step, np.int64),
        np.array(value, np.float64),
    )


def joined(parts: Sequence[Points]) -> Points:
    """One after the other, under one list of names."""
    if not parts:
        return columns(())
    names: dict[str, int] = {}
    metric = [_translated(part, names) for part in parts]
    return Points(
        tuple(names),
        np.concatenate(metric),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.step for part in parts]),
        np.concatenate([part.value for part in parts]),
    )


def merged(parts: Sequence[Part], start: int, end: int) -> Points:
    """The points of a range, by metric, then time, each thing said once."""
    found = joined([part.points for part in parts])
    kept = (found.at >= start) & (found.at <= end)
    if len({(part.source, part.attempt) for part in parts}) > len({part.attempt for part in parts}):
        kept &= _said_first(found, parts)
    return _ordered(found, kept)


def curves(found: Points, most: int) -> list[Curve]:
    """Each metric with at most so many of its points, evenly chosen; the first and the last are always among them."""
    ends = np.searchsorted(found.metric, np.arange(len(found.names) + 1)).tolist()
    return [
        Curve(name, last - first, list(_chosen(found, first, last, most)))
        for name, first, last in zip(found.names, ends[:-1], ends[1:], strict=True)
        if last > first
    ]


def _chosen(found: Points, first: int, last: int, most: int) -> Iterator[TrainingPoint]:
    if last - first <= most:
        return found.rows(first, last)
    return _taken(found, first + np.linspace(0, last - 1 - first, most).round().astype(np.int64)).rows()


def _taken(found: Points, places: Integers | NDArray[np.bool_] | slice) -> Points:
    return Points(found.names, found.metric[places], found.at[places], found.step[places], found.value[places])


def _translated(part: Points, names: dict[str, int]) -> Integers:
    places = [names.setdefault(name, len(names)) for name in part.names]
    return np.array(places, np.int64)[part.metric] if places else part.metric


def _said_first(found: Points, parts: Sequence[Part]) -> NDArray[np.bool_]:
    """Which points come from the source that was the first of its attempt to say this of this step."""
    sources: Mapping[str, int] = {name: place for place, name in enumerate(sorted({part.source for part in parts}))}
    lengths = [len(part.points) for part in parts]
    source = np.repeat([sources[part.source] for part in parts], lengths)
    attempt = np.repeat([part.attempt for part in parts], lengths)
    order = np.lexsort((source, found.at, found.step, found.metric, attempt))
    keys = np.stack([attempt, found.metric, found.step])[:, order]
    begins = np.ones(len(found), dtype=bool)
    begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
    first = source[order][np.flatnonzero(begins)][np.cumsum(begins) - 1]
    said = np.empty(len(found), dtype=bool)
    said[order] = (source[order] == first) | (found.step[order] == NO_STEP)
    return said


def _ordered(found: Points, kept: NDArray[np.bool_]) -> Points:
    """By metric, time and step; what is the same in all was sent twice and is there once."""
    names = tuple(sorted(found.names))
    metric = _translated(found, {name: number for number, name in enumerate(names)})
    found = _taken(Points(names, metric, found.at, found.step, found.value), kept)
    found = _taken(found, np.lexsort((found.value, found.step, found.at, found.metric)))
    new = np.ones(len(found), dtype=bool)
    new[1:] = np.any([c[1:] != c[:-1] for c in (found.metric, found.at, found.step, found.value)], axis=0)
    return found if new.all() else _taken(found, new)
