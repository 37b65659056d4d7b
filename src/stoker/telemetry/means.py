"""Readings of held GPUs made into lines: a point is the mean of what was read in its step while the GPU was held."""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Holding, Range
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
        shape = (len(self._gpus), self._points)
        self._sums = {metric: np.zeros(shape) for metric in metrics}
        self._counts = {metric: np.zeros(shape, np.int32) for metric in metrics}

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
            found = (roster.place(each.node, each.device) for each in self.held)
            self._rows[roster] = np.array([-1 if row is None else row for row in found], np.intp)
        return self._rows[roster]

    def add(
        self,
        ats: NDArray[np.int64],
        places: NDArray[np.intp],
        values: Mapping[Metric, NDArray[np.floating]],
    ) -> None:
        """Arrays [place, at]: one row for each of these places in `held`, at growing moments."""
        point = -((self._span.start - ats) // self._span.step)
        inside = (point >= 0) & (point < self._points)
        ats, point = ats[inside], point[inside]
        if not len(ats):
            return
        first, width = int(point[0]), int(point[-1] - point[0]) + 1
        held = (ats >= self._from[places, np.newaxis]) & (ats < self._to[places, np.newaxis])
        cell = np.arange(len(places))[:, np.newaxis] * width + (point - first)
        for metric, array in values.items():
            known = array[:, inside]
            taken = held & ~np.isnan(known)
            size = len(places) * width
            sums = np.bincount(cell[taken], known[taken], size).reshape(-1, width)
            counts = np.bincount(cell[taken], minlength=size).reshape(-1, width)
            np.add.at(self._sums[metric][:, first : first + width], self._line[places], sums)
            np.add.at(self._counts[metric][:, first : first + width], self._line[places], counts)

    def lines(self) -> dict[Metric, list[GpuLine]]:
        """By node and device; a GPU without any reading has no line."""
        return {metric: self._lines(self._sums[metric], self._counts[metric]) for metric in self._sums}

    def _lines(self, sums: NDArray[np.float64], counts: NDArray[np.int32]) -> list[GpuLine]:
        found = []
        for (node, device), total, count in zip(self._gpus, sums, counts, strict=True):
            there = np.flatnonzero(count)
            if len(there):
                values = np.round(total[there] / count[there], DECIMALS).tolist()
                moments = (self._span.start + there * self._span.step).tolist()
                found.append(GpuLine(node, device, list(zip(values, moments, strict=True))))
        return found


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
