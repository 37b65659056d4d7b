"""The operations on snapshots: who held which GPUs, every few minutes. GPUs are counted in whole ones, upwards."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from stoker.api.aggregation.hours import BASE
from stoker.api.aggregation.params import ClusterParams, SnapshotParams
from stoker.api.aggregation.words import DIGITS, shown, whole_gpus
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import AGGREGATION
from stoker.api.streams import LongList, listed
from stoker.domain.errors import ErrorCode
from stoker.domain.identity import Cluster
from stoker.domain.permissions import Action
from stoker.domain.usage import Snapshot, SnapshotWorkload

OF_CLUSTER = "cluster"
"""The one dimension that snapshots have."""
K = TypeVar("K", bound=Hashable)


class HeldByWorkload(Struct, frozen=True):
    uid: str
    name: str
    namespace: str
    kind: str
    allocated_gpu: int
    utilization: float


class HeldInNamespace(Struct, frozen=True):
    allocated_gpu: int
    utilization: float
    workload_count: int
    workloads: list[HeldByWorkload]


class HeldTogether(Struct, frozen=True):
    allocated_gpu: int
    utilization: float
    workload_count: int


class AllocationDetails(Struct, frozen=True, omit_defaults=True):
    """Empty when it was not asked for. Annotations go by key, then value."""

    namespaces: dict[str, HeldInNamespace] | None = None
    annotations: dict[str, dict[str, HeldTogether]] | None = None


class LatestSnapshot(Struct, frozen=True):
    id: int
    cluster_name: str
    snapshot_time: str
    dimension_type: str
    dimension_key: str
    dimension_value: str
    total_gpu_capacity: int
    allocated_gpu_count: int
    allocation_details: AllocationDetails
    created_at: str


class ListedSnapshot(Struct, frozen=True):
    id: int
    cluster_name: str
    snapshot_time: str
    dimension_type: str
    total_gpu_capacity: int
    allocated_gpu_count: int
    allocation_details: AllocationDetails
    created_at: str


@endpoint(
    "GET",
    f"{BASE}/snapshots/latest",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=ClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_latest_snapshot(call: Call[ClusterParams]) -> LatestSnapshot:
    """Who held which GPUs when it was last looked at, by namespace and by annotation."""
    cluster = await call.services.usage.cluster(call.params.cluster)
    found = await call.services.usage.latest(cluster)
    return LatestSnapshot(
        id=found.id,
        cluster_name=cluster.name,
        snapshot_time=shown(found.at),
        dimension_type=OF_CLUSTER,
        dimension_key="",
        dimension_value="",
        total_gpu_capacity=found.gpus,
        allocated_gpu_count=whole_gpus(found.allocated_milli),
        allocation_details=_details(found),
        created_at=shown(found.created_at),
    )


@endpoint(
    "GET",
    f"{BASE}/snapshots",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=SnapshotParams,
    result=list[ListedSnapshot],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_snapshots(call: Call[SnapshotParams]) -> list[ListedSnapshot] | LongList:
    """The snapshots of a range of time, oldest first; of the last 24 hours when nothing is said."""
    asked = call.params
    cluster = await call.services.usage.cluster(asked.cluster)
    between = asked.until(call.services.clock.now())
    found = call.services.usage.snapshots(cluster.id, *between, details=asked.details)
    return await listed(found, lambda snapshot: _listed(cluster, snapshot))


def _listed(cluster: Cluster, snapshot: Snapshot) -> ListedSnapshot:
    return ListedSnapshot(
        id=snapshot.id,
        cluster_name=cluster.name,
        snapshot_time=shown(snapshot.at),
        dimension_type=OF_CLUSTER,
        total_gpu_capacity=snapshot.gpus,
        allocated_gpu_count=whole_gpus(snapshot.allocated_milli),
        allocation_details=_details(snapshot),
        created_at=shown(snapshot.created_at),
    )


def _details(snapshot: Snapshot) -> AllocationDetails:
    if snapshot.workloads is None:
        return AllocationDetails()
    by_namespace = _grouped((each.namespace, each) for each in snapshot.workloads)
    by_annotation = _grouped((pair, each) for each in snapshot.workloads for pair in each.annotations.items())
    annotations: defaultdict[str, dict[str, HeldTogether]] = defaultdict(dict)
    for (key, value), group in by_annotation:
        annotations[key][value] = HeldTogether(_gpus(group), _utilization(group), len(group))
    return AllocationDetails(
        {
            name: HeldInNamespace(_gpus(group), _utilization(group), len(group), [_workload(each) for each in group])
            for name, group in by_namespace
        },
        annotations,
    )


def _workload(held: SnapshotWorkload) -> HeldByWorkload:
    return HeldByWorkload(
        held.uid, held.name, held.namespace, held.kind, whole_gpus(held.gpu_milli), _utilization([held])
    )


def _grouped(members: Iterable[tuple[K, SnapshotWorkload]]) -> list[tuple[K, list[SnapshotWorkload]]]:
    groups: defaultdict[K, list[SnapshotWorkload]] = defaultdict(list)
    for key, held in members:
        groups[key].append(held)
    return sorted(groups.items(), key=lambda pair: str(pair[0]))


def _gpus(group: Sequence[SnapshotWorkload]) -> int:
    return whole_gpus(sum(held.gpu_milli for held in group))


def _utilization(group: Sequence[SnapshotWorkload]) -> float:
    """The mean over the GPUs of those that have a reading, from 0 to 100."""
    read = [(held.gpu_milli, held.utilization) for held in group if held.utilization is not None]
    weight = sum(milli for milli, _ in read)
    return round(100 * sum(milli * value for milli, value in read) / weight, DIGITS) if weight else 0.0
