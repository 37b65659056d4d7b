"""The samples of an hour, gathered by workload: exact statistics over whole numbers."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.usage import MemoryStats, Stats
from stoker.usage.facts import Holds, Measured

AT_ONCE = 512
"""How many holds are gathered at a time: what they need stays in the processor's cache."""
COUNTED_AT_ONCE = 1 << 18
FULL = 10_000
"""A hundred percent, in hundredths of one."""
SHARES = (0.50, 0.95)


class Samples:
    """`values` holds the utilisation of all samples, owner after owner, each owner's sorted; `ends` says where."""

    def __init__(self, values: NDArray[np.int16], counts: NDArray[np.int64], memory: NDArray[np.int64]) -> None:
        self._values = values
        self._ends = np.concatenate([[0], np.cumsum(counts)])
        self._memory = memory
        for first, last in pairwise(self._ends):
            values[first:last].sort()

    def stats(self) -> Iterator[Stats]:
        """Of each owner."""
        firsts, counts = self._ends[:-1], np.diff(self._ends)
        sums = np.concatenate([[0], np.cumsum(self._values, dtype=np.int64)])
        totals = sums[self._ends[1:]] - sums[firsts]
        edges = [self._at(firsts), self._at(self._ends[1:] - 1)]
        percentiles = [_percentile(lambda places: self._at(firsts + places), counts, share) for share in SHARES]
        columns = (each.tolist() for each in (counts, totals, *edges, *percentiles))
        return (Stats(*row) if row[0] else Stats() for row in zip(*columns, strict=True))

    def memory(self) -> Iterator[MemoryStats]:
        return (MemoryStats(*row) for row in self._memory.tolist())

    def _at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values; any one where there is none."""
        if not len(self._values):
            return np.zeros(len(places), np.int64)
        return self._values[np.clip(places, 0, len(self._values) - 1)].astype(np.int64)

    def of_all(self) -> Stats:
        """Every sample together; counted instead of sorted, as there are only so many values."""
        counts = np.zeros(FULL + 1, np.int64)
        for first in range(0, len(self._values), COUNTED_AT_ONCE):
            counts += np.bincount(self._values[first : first + COUNTED_AT_ONCE], minlength=FULL + 1)
        ends = np.cumsum(counts)
        samples = int(ends[-1])
        if not samples:
            return Stats()
        total = int((counts * np.arange(len(counts))).sum())
        lowest, highest = (int(value) for value in np.searchsorted(ends, [0, samples - 1], side="right"))
        p50, p95 = (
            float(_percentile(lambda places: np.searchsorted(ends, places, side="right"), ends[-1:], share)[0])
            for share in SHARES
        )
        return Stats(samples, total, lowest, highest, p50, p95)


def gather(measured: Measured, at: int, holds: Holds) -> Samples:
    """What was read of the GPUs while they were held."""
    inside = slice(*np.searchsorted(measured.ats, [at, at + HOUR_MS]))
    ats = measured.ats[inside]
    utilization, memory = measured.utilization[:, inside], measured.memory[:, inside]
    counts = np.zeros(len(holds.owners), np.int64)
    memories = np.zeros((len(holds.owners), 4), np.int64)
    values = [np.zeros(0, np.int16)]
    for first in range(0, len(holds), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        owner, gpu = holds.owner[some], holds.gpu[some]
        held = (ats >= holds.from_at[some, None]) & (ats < holds.to_at[some, None])
        readings = utilization[gpu]
        taken = held & (readings >= 0)
        np.add.at(counts, owner, taken.sum(axis=1))
        values.append(np.clip(readings[taken], 0, FULL))
        used = memory[gpu]
        known = held & (used >= 0)
        used *= known
        times = known.sum(axis=1)
        np.add.at(memories[:, 0], owner, times)
        np.add.at(memories[:, 1], owner, used.sum(axis=1, dtype=np.int64))
        np.maximum.at(memories[:, 2], owner, used.max(axis=1, initial=0))
        np.add.at(memories[:, 3], owner, times * measured.memory_size[gpu])
    return Samples(np.concatenate(values), counts, memories)


def _percentile(
    at: Callable[[NDArray[np.int64]], NDArray[np.int64]], counts: NDArray[np.int64], share: float
) -> NDArray[np.float64]:
    """Below which this share of the samples lies, of each owner: on the line between the sorted values beside it."""
    places = (counts - 1) * share
    below = places.astype(np.int64)
    low, high = at(below), at(np.minimum(below + 1, counts - 1))
    return low + (high - low) * (places % 1)
