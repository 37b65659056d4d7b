"""Readings of held GPUs made into lines: a point is the mean of what was read in its step while the GPU was held."""

from collections.abc import Sequence
from itertools import compress

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Point, Range
from stoker.telemetry.roster import Roster
from stoker.telemetry.unpacked import MISSING

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
        self.first_at = max(span.start - span.step + 1, int(self._from.min(initial=FOREVER)))
        self.last_at = min(span.end, int(self._to.max(initial=0)) - 1)
        """The first and the last moment that can matter."""
        self._gpus = sorted({(each.node, each.device) for each in self.held})
        line = {gpu: place for place, gpu in enumerate(self._gpus)}
        self._line = np.array([line[each.node, each.device] for each in self.held], np.intp)
        self._rows: dict[Roster, NDArray[np.intp]] = {}
        self._metrics = tuple(metrics)
        self._totals = np.zeros((2, len(self._metrics), len(self._gpus), self._points))
        """Sums, and counts."""

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
        numbers: NDArray[np.int32],
        units: NDArray[np.float64],
    ) -> None:
        """Numbers [metric, place, at]: a row for each of these places in `held`, at growing moments. `units` [metric,
        place] says what one of them is worth; 0 where that is not known."""
        point = -((self._span.start - ats) // self._span.step)
        inside = slice(*np.searchsorted(point, (0, self._points)).tolist())
        ats, point, numbers = ats[inside], point[inside], numbers[..., inside]
        if not len(ats) or not len(places):
            return
        held = (ats >= self._from[places, np.newaxis]) & (ats < self._to[places, np.newaxis])
        taken = (numbers != MISSING) & held & (units > 0)[..., np.newaxis]
        readings = np.empty((2, *numbers.shape))
        np.multiply(numbers, taken, out=readings[0])
        readings[1] = taken
        begins = np.concatenate([[0], np.flatnonzero(point[1:] != point[:-1]) + 1])
        totals = np.add.reduceat(readings, begins, axis=3)
        totals[0] *= units[..., np.newaxis]
        lines, points = self._line[places], point[begins]
        if _follow(lines) and _follow(points):  # as they do unless a GPU was held twice, or not read for long
            self._totals[..., lines[0] : lines[-1] + 1, points[0] : points[-1] + 1] += totals
        else:
            np.add.at(self._totals, np.ix_(*map(np.arange, totals.shape[:2]), lines, points), totals)

    def lines(self) -> dict[Metric, list[GpuLine]]:
        """By node and device; a GPU without any reading has no line."""
        told = np.flatnonzero(self._totals[1].any(axis=(0, 1)))  # mostly a moment is told of every GPU, or of none
        sums, counts = self._totals[..., told]
        means = np.round(sums / np.maximum(counts, 1), DECIMALS)
        moments = (self._span.start + told * self._span.step).tolist()
        return {
            metric: [
                GpuLine(node, device, _points(values, moments, known))
                for (node, device), values, known in zip(self._gpus, rows, knowns, strict=True)
                if any(known)
            ]
            for metric, rows, knowns in zip(self._metrics, means.tolist(), counts.tolist(), strict=True)
        }


def _follow(places: NDArray[np.signedinteger]) -> bool:
    return bool((places[1:] - places[:-1] == 1).all())


def _points(values: list[float], moments: list[int], known: list[float]) -> list[Point]:
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
