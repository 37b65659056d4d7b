"""The inputs for closing one hour of a cluster, in parallel columns."""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS

IntArray = NDArray[np.int64]


class DeviceInterval(Struct, frozen=True, gc=False):
    """A period of one GPU; `gpu` is its row in the samples."""

    gpu: int
    from_at: int
    to_at: int


class AllocationInterval(Struct, frozen=True, gc=False):
    """A GPU, or a fraction of one, allocated to a pod, which was starting until `started_at`."""

    gpu: int
    uid: str
    pod: str
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int


class DeviceIntervals(Struct, frozen=True, eq=False):
    """Periods of GPUs in any order."""

    gpu: IntArray
    from_at: IntArray
    to_at: IntArray

    def clip(self, begin: int, end: int) -> "DeviceIntervals":
        """The parts within a window."""
        from_at, to_at = np.maximum(self.from_at, begin), np.minimum(self.to_at, end)
        inside = from_at < to_at
        return DeviceIntervals(self.gpu[inside], from_at[inside], to_at[inside])


class AllocationIntervals(Struct, frozen=True, eq=False):
    """Allocations sorted by owner, pod, GPU and time. `owner` indexes `owners`; `pod` only distinguishes pods."""

    owners: Sequence[str]
    owner: IntArray
    pod: IntArray
    gpu: IntArray
    gpu_milli: IntArray
    from_at: IntArray
    to_at: IntArray
    started_at: IntArray

    def __len__(self) -> int:
        return len(self.owner)

    def select(self, selected: NDArray[np.bool_]) -> "AllocationIntervals":
        """A subset of the allocations, with only their owners."""
        owner_indexes, owner = np.unique(self.owner[selected], return_inverse=True)
        return AllocationIntervals(
            [self.owners[index] for index in owner_indexes.tolist()],
            owner,
            self.pod[selected],
            self.gpu[selected],
            self.gpu_milli[selected],
            self.from_at[selected],
            self.to_at[selected],
            self.started_at[selected],
        )


class HourSamples(Struct, frozen=True, eq=False):
    """Samples [gpu, tick] in time order; negative values are missing. A tick is valid for at most its `validity`. Ticks
    before the hour cover its beginning, but are not counted as samples.

    Utilization is in hundredths of a percent, memory in MiB; `memory_size` [gpu] is 0 if unknown. `age` [gpu, tick] is
    the age of a sample at its tick in milliseconds; None if all are 0.
    """

    tick_times: IntArray
    validity: IntArray
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]
    memory_size: IntArray
    age: NDArray[np.int32] | None = None

    def sampled_at(self, gpu: IntArray) -> IntArray:
        """When the samples of these GPUs were taken: [gpu, tick]."""
        if self.age is None:
            return np.broadcast_to(self.tick_times, (len(gpu), len(self.tick_times)))
        return self.tick_times - self.age[gpu]


class HourInputs(Struct, frozen=True, eq=False):
    """All inputs of one hour. `models` has the model of each GPU; `idle_threshold` is in hundredths of a percent."""

    at: int
    models: Sequence[str]
    present: DeviceIntervals
    faulty: DeviceIntervals
    allocations: AllocationIntervals
    samples: HourSamples
    idle_threshold: int


def build_device_intervals(intervals: Iterable[DeviceInterval]) -> DeviceIntervals:
    rows = [(interval.gpu, interval.from_at, interval.to_at) for interval in intervals]
    return DeviceIntervals(*np.array(rows, np.int64).reshape(-1, 3).T)


def build_allocation_intervals(intervals: Iterable[AllocationInterval]) -> AllocationIntervals:
    ordered = sorted(intervals, key=lambda interval: (interval.uid, interval.pod, interval.gpu, interval.from_at))
    owners = list(dict.fromkeys(interval.uid for interval in ordered))
    owner = {uid: index for index, uid in enumerate(owners)}
    pod = {name: index for index, name in enumerate(dict.fromkeys(interval.pod for interval in ordered))}
    rows = [
        (
            owner[interval.uid],
            pod[interval.pod],
            interval.gpu,
            interval.gpu_milli,
            interval.from_at,
            interval.to_at,
            interval.started_at,
        )
        for interval in ordered
    ]
    return AllocationIntervals(owners, *np.array(rows, np.int64).reshape(-1, 7).T)


def sample_validity(ats: IntArray) -> IntArray:
    """The maximum validity of each tick: twice the time since the one before it, because one tick may be missing."""
    if len(ats) < 2:
        return np.full(len(ats), MAX_SAMPLE_GAP_MS, np.int64)
    gaps = np.diff(ats)
    return np.minimum(2 * np.concatenate([gaps[:1], gaps]), MAX_SAMPLE_GAP_MS)
