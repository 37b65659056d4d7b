"""How many intervals overlap over time, and when each GPU of an hour was present and healthy."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.intervals import Interval, intersect, merge_intervals, total_length
from stoker.usage.inputs import DeviceIntervals, HourInputs, IntArray


class Concurrency:
    """The weighted number of concurrent members over time."""

    def __init__(self, members: Iterable[tuple[Interval, int]]) -> None:
        steps: dict[int, int] = {}
        for (first, last), weight in members:
            steps[first] = steps.get(first, 0) + weight
            steps[last] = steps.get(last, 0) - weight
        moments = sorted(steps)
        self._levels: list[tuple[int, int]] = []
        level = 0
        for moment, next_moment in pairwise(moments):
            level += steps[moment]
            if level:
                self._levels.append((level, next_moment - moment))

    @property
    def max(self) -> int:
        return max((level for level, _ in self._levels), default=0)

    @property
    def min(self) -> int:
        """The minimum while there is any member."""
        return min((level for level, _ in self._levels), default=0)

    @property
    def average(self) -> float:
        """The mean, weighted by time, while there is any member."""
        time = sum(duration for _, duration in self._levels)
        return sum(level * duration for level, duration in self._levels) / time if time else 0.0


class GpuPresence:
    """When each GPU was present and faulty. Most are healthy from `from_at` to `to_at`; for the few irregular
    ones, `present_intervals` and `faulty_intervals` have the details."""

    def __init__(self, hour: HourInputs) -> None:
        end, count = hour.at + HOUR_MS, len(hour.models)
        present, faulty = hour.present.clip(hour.at, end), hour.faulty.clip(hour.at, end)
        interval_counts = np.bincount(present.gpu, minlength=count)
        self.is_present: NDArray[np.bool_] = interval_counts > 0
        self.is_irregular: NDArray[np.bool_] = self.is_present & (
            (interval_counts > 1) | (np.bincount(faulty.gpu, minlength=count) > 0)
        )
        self.from_at, self.to_at = np.zeros((2, count), np.int64)
        self.from_at[present.gpu], self.to_at[present.gpu] = present.from_at, present.to_at
        self.present_intervals = _intervals_by_gpu(present, self.is_irregular)
        faulty_by_gpu = _intervals_by_gpu(faulty, self.is_irregular)
        self.faulty_intervals = {
            gpu: intersect(intervals, self.present_intervals[gpu]) for gpu, intervals in faulty_by_gpu.items()
        }

    @property
    def max_present(self) -> int:
        """The peak number of present GPUs."""
        regular = np.flatnonzero(self.is_present & ~self.is_irregular)
        spans = Counter(zip(self.from_at[regular].tolist(), self.to_at[regular].tolist(), strict=True))
        spans.update(interval for intervals in self.present_intervals.values() for interval in intervals)
        return Concurrency(spans.items()).max

    def durations(self) -> tuple[IntArray, IntArray]:
        """How long each GPU was present, and how long of that faulty."""
        present_ms, faulty_ms = self.to_at - self.from_at, np.zeros_like(self.to_at)
        for gpu, intervals in self.present_intervals.items():
            present_ms[gpu], faulty_ms[gpu] = total_length(intervals), total_length(self.faulty_intervals.get(gpu, ()))
        return present_ms, faulty_ms


def _intervals_by_gpu(device_intervals: DeviceIntervals, selected: NDArray[np.bool_]) -> dict[int, list[Interval]]:
    by_gpu: defaultdict[int, list[Interval]] = defaultdict(list)
    mask = selected[device_intervals.gpu]
    for gpu, first, last in zip(
        *(column[mask].tolist() for column in (device_intervals.gpu, device_intervals.from_at, device_intervals.to_at)),
        strict=True,
    ):
        by_gpu[gpu].append((first, last))
    return {gpu: merge_intervals(intervals) for gpu, intervals in by_gpu.items()}
