"""The samples of an hour, gathered by workload: exact statistics over whole numbers."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.usage import MemoryStats, Stats
from stoker.usage.facts import Hold, Measured

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

    def of(self, owner: int) -> Stats:
        values = self._values[self._ends[owner] : self._ends[owner + 1]]
        if not len(values):
            return Stats()
        p50, p95 = (_between(values[_places(len(values), share)], len(values), share) for share in SHARES)
        return Stats(len(values), int(values.sum(dtype=np.int64)), int(values[0]), int(values[-1]), p50, p95)

    def memory(self, owner: int) -> MemoryStats:
        return MemoryStats(*(int(value) for value in self._memory[owner]))

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
            _between(np.searchsorted(ends, _places(samples, share), side="right"), samples, share) for share in SHARES
        )
        return Stats(samples, total, lowest, highest, p50, p95)


def gather(measured: Measured, at: int, holds: Sequence[Hold], owners: Sequence[int], count: int) -> Samples:
    """The samples of holds that are ordered by owner."""
    inside = slice(*np.searchsorted(measured.ats, [at, at + HOUR_MS]))
    ats = measured.ats[inside]
    utilization, memory = measured.utilization[:, inside], measured.memory[:, inside]
    counts = np.zeros(count, np.int64)
    memories = np.zeros((count, 4), np.int64)
    values = [np.zeros(0, np.int16)]
    for first in range(0, len(holds), AT_ONCE):
        some = holds[first : first + AT_ONCE]
        owner = np.array(owners[first : first + AT_ONCE], np.int64)
        gpu = np.array([hold.gpu for hold in some], np.int64)
        from_at = np.array([hold.from_at for hold in some], np.int64)[:, None]
        to_at = np.array([hold.to_at for hold in some], np.int64)[:, None]
        held = (ats >= from_at) & (ats < to_at)
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


def _places(samples: int, share: float) -> list[int]:
    """The neighbours of the value below which this share of the samples lies."""
    low = int((samples - 1) * share)
    return [low, min(low + 1, samples - 1)]


def _between(neighbours: NDArray[np.integer], samples: int, share: float) -> float:
    """The value itself, on the line between them."""
    low, high = (int(value) for value in neighbours)
    return low + (high - low) * ((samples - 1) * share % 1)
