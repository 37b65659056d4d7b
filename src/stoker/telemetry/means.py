"""Readings of held GPUs made into lines: a point is the mean of what was read in its step while the GPU was held."""

from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Point, Range
from stoker.telemetry.roster import Roster

FOREVER = 1 << 62
DECIMALS = 4


class Means:
    """Sums and counts for each GPU and point. Readings come in any order, each once."""

    def __init__(self, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range) -> None:
        self.held = merged(holdings)
        self._span = span
        self._points = max(0, (span.end - span.start) // span.step + 1)
        self._from = np.array([each.from_at for each in self.held], np.int64)
        self._to = np.array([_end(each) for each in self.held], np.int64)
        self._gpus = sorted({(each.node, each.device) for each in self.held})
        line = {gpu: place for place, gpu in enumerate(self._gpus)}
        self._line = np.array([line[each.node, each.device] for each in self.held], np.intp)
        self._rows: dict[Roster, NDArray[np.intp]] = {}
        self._metrics = tuple(metrics)
        shape = (len(self._gpus), self._points, len(self._metrics))
        self._sums = np.zeros(shape)
        self._counts = np.zeros(shape, np.int32)

    @property
    def first_at(self) -> int:
        """The first moment that can matter."""
        return max(self._span.start - self._span.step + 1, int(self._from.min(initial=FOREVER)))

    @property
    def last_at(self) -> int:
        return min(self._span.end, int(self._to.max(initial=0)) - 1)

    def held_between(self, from_at: int, to_at: int) -> NDArray[np.intp]:
        """The places in `held` of what was held at some moment in [from_at, to_at)."""
        return np.flatnonzero((self._from < to_at) & (self._to > from_at))

    def rows_in(self, roster: Roster) -> NDArray[np.intp]:
        """For each place in `held` its row of a roster, or -1; looked up once for each roster."""
        if roster not in self._rows:
            self._rows[roster] = roster.places([(each.node, each.device) for each in self.held])
        return self._rows[roster]

    def add(
        self,
        ats: NDArray[np.int64],
        places: NDArray[np.intp],
        values: Mapping[Metric, NDArray[np.floating]],
    ) -> None:
        """Arrays [place, at]: one row for each of these places in `held`, at growing moments."""
        point = -((self._span.start - ats) // self._span.step)
        inside = slice(*np.searchsorted(point, (0, self._points)).tolist())
        ats, point = ats[inside], point[inside]
        if not len(ats):
            return
        known = np.stack([values[metric][:, inside] for metric in self._metrics], axis=2, dtype=np.float64)
        held = (ats >= self._from[places, np.newaxis]) & (ats < self._to[places, np.newaxis])
        taken = held[..., np.newaxis] & ~np.isnan(known)
        begins = np.flatnonzero(np.diff(point, prepend=-1))
        sums = np.add.reduceat(np.where(taken, known, 0.0), begins, axis=1)
        counts = np.add.reduceat(taken, begins, axis=1, dtype=np.int32)
        lines = self._line[places]
        cells = (lines[:, np.newaxis], point[begins])
        if (np.diff(lines) > 0).all():  # by node and device, so only a GPU that was held twice is there twice
            self._sums[cells] += sums
            self._counts[cells] += counts
        else:
            np.add.at(self._sums, cells, sums)
            np.add.at(self._counts, cells, counts)

    def lines(self) -> dict[Metric, list[GpuLine]]:
        """By node and device; a GPU without any reading has no line."""
        there = self._counts > 0
        means = np.round(self._sums / np.maximum(self._counts, 1), DECIMALS)
        moments = [*range(self._span.start, self._span.start + self._points * self._span.step, self._span.step)]
        return {
            metric: [
                GpuLine(node, device, _points(values, moments, known))
                for (node, device), values, known in zip(self._gpus, rows, knowns, strict=True)
                if any(known)
            ]
            for metric, rows, knowns in zip(
                self._metrics, *(np.moveaxis(each, 2, 0).tolist() for each in (means, there)), strict=True
            )
        }


def _points(values: list[float], moments: list[int], known: list[bool]) -> list[Point]:
    points = zip(values, moments, strict=True)
    return [*points] if all(known) else [*compress(points, known)]


def merged(holdings: Sequence[Holding]) -> list[Holding]:
    """By GPU and time, without overlaps: a GPU that is held twice at a moment is held."""
    found: list[Holding] = []
    for each in sorted(holdings, key=lambda each: (each.node, each.device, each.from_at)):
        before = found[-1] if found else None
        if before and (before.node, before.device) == (each.node, each.device) and each.from_at <= _end(before):
            longer = max(before, each, key=_end)
            found[-1] = structs.replace(before, to_at=longer.to_at)
        else:
            found.append(each)
    return found


def _end(holding: Holding) -> int:
    return FOREVER if holding.to_at is None else holding.to_at
