"""Range queries over GPU samples, from the store or from Prometheus."""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Protocol

from msgspec import Struct

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.gpu_metric import GpuMetric
from stoker.domain.names import natural_sort_key

MAX_POINTS = 11_000

SeriesPoint = tuple[float, int]
"""Value and epoch milliseconds."""


class DeviceAllocation(Struct, frozen=True):
    """A period in which a GPU was allocated; `to_at` is None while it still is."""

    node: str
    device: int
    from_at: int
    to_at: int | None
    uuid: str = ""

    @property
    def gpu(self) -> GpuId:
        return GpuId(self.node, self.device, self.uuid)


def last_places(allocations: Iterable[DeviceAllocation]) -> dict[str, GpuId]:
    """Each GPU by its key, at the place of its last allocation; ordered by node, with numbers in names as numbers, and
    device."""
    newest: dict[str, DeviceAllocation] = {}
    for allocation in allocations:
        key = allocation.gpu.key
        if key not in newest or allocation.from_at >= newest[key].from_at:
            newest[key] = allocation
    ordered = sorted(newest.items(), key=lambda item: (natural_sort_key(item[1].node), item[1].gpu))
    return {key: allocation.gpu for key, allocation in ordered}


class TimeRange(Struct, frozen=True):
    """A range in epoch milliseconds. The point at t = start + k * step is the mean of the samples in (t - step, t]."""

    start: int
    end: int
    step: int


class GpuSeries(Struct, frozen=True):
    """The points of one GPU over a range; steps without samples have no point. Node and device are where the GPU was in
    its last allocation."""

    node: str
    device: int
    points: list[SeriesPoint]
    uuid: str = ""

    @property
    def gpu(self) -> GpuId:
        return GpuId(self.node, self.device, self.uuid)


def merge_places(lines: Iterable[GpuSeries]) -> list[GpuSeries]:
    """One series for each node and device, where a series is named after its place: a GPU that was replaced by another
    one has two series, one after the other."""
    by_place: dict[tuple[str, int], list[GpuSeries]] = {}
    for line in lines:
        by_place.setdefault((line.node, line.device), []).append(line)
    return [
        same_place[-1]
        if len(same_place) == 1
        else GpuSeries(*place, sorted((point for line in same_place for point in line.points), key=itemgetter(1)))
        for place, same_place in by_place.items()
    ]


class RangeBackend(Protocol):
    """Queries samples of GPUs only while they were allocated, so that no workload sees another one's samples."""

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        """Series by node and device; MEMORY_USED is a fraction of the GPU's memory."""
        ...
