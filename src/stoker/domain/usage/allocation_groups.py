"""The workloads of an allocation snapshot, grouped by namespace or by annotation.

A workload belongs to one namespace and to every pair of its annotations.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from stoker.domain.usage.snapshots import SnapshotWorkload

K = TypeVar("K", bound=Hashable)


class AllocationGroup(Struct, frozen=True):
    workloads: Sequence[SnapshotWorkload]

    @property
    def gpu_milli(self) -> int:
        return sum(workload.gpu_milli for workload in self.workloads)

    @property
    def mean_utilization(self) -> float | None:
        """The mean weighted by GPUs, 0..1, over the workloads that have samples; None if none has."""
        samples = [(load.gpu_milli, load.utilization) for load in self.workloads if load.utilization is not None]
        weight = sum(milli for milli, _ in samples)
        return sum(milli * utilization for milli, utilization in samples) / weight if weight else None


def group_by_namespace(workloads: Iterable[SnapshotWorkload]) -> list[tuple[str, AllocationGroup]]:
    return _group((workload.namespace, workload) for workload in workloads)


def group_by_annotation(workloads: Iterable[SnapshotWorkload]) -> list[tuple[tuple[str, str], AllocationGroup]]:
    return _group((pair, workload) for workload in workloads for pair in workload.annotations.items())


def _group(members: Iterable[tuple[K, SnapshotWorkload]]) -> list[tuple[K, AllocationGroup]]:
    groups: defaultdict[K, list[SnapshotWorkload]] = defaultdict(list)
    for key, workload in members:
        groups[key].append(workload)
    return sorted(((key, AllocationGroup(group)) for key, group in groups.items()), key=lambda pair: str(pair[0]))
