"""Snapshots of the GPU allocations of a cluster, taken every few minutes. Fractions of GPUs are rounded up."""

from msgspec import Struct

from stoker.api.compat.aggregation.formatting import DECIMALS, format_time, round_up_gpus
from stoker.api.compat.aggregation.hourly_stats import BASE_PATH
from stoker.api.compat.aggregation.params import AggregationClusterParams, SnapshotListParams
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import AGGREGATION
from stoker.api.http.streaming import StreamedList, list_or_stream
from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.usage.allocation_groups import AllocationGroup, group_by_annotation, group_by_namespace
from stoker.domain.usage.snapshots import AllocationSnapshot, SnapshotWorkload

CLUSTER_DIMENSION = "cluster"
"""The only dimension of snapshots."""


class WorkloadAllocationDetail(Struct, frozen=True):
    uid: str
    name: str
    namespace: str
    kind: str
    allocated_gpu: int
    utilization: float


class NamespaceAllocationDetail(Struct, frozen=True):
    allocated_gpu: int
    utilization: float
    workload_count: int
    workloads: list[WorkloadAllocationDetail]


class AnnotationAllocationDetail(Struct, frozen=True):
    allocated_gpu: int
    utilization: float
    workload_count: int


class AllocationDetails(Struct, frozen=True, omit_defaults=True):
    """Empty unless requested. Annotations are grouped by key, then by value."""

    namespaces: dict[str, NamespaceAllocationDetail] | None = None
    annotations: dict[str, dict[str, AnnotationAllocationDetail]] | None = None


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


class SnapshotListItem(Struct, frozen=True):
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
    f"{BASE_PATH}/snapshots/latest",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=AggregationClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_latest_snapshot(call: Call[AggregationClusterParams]) -> LatestSnapshot:
    """The last snapshot, with the allocations by namespace and by annotation."""
    cluster = await call.services.usage.get_cluster(call.params.cluster)
    found = await call.services.usage.latest_snapshot(call.optional_actor, cluster)
    return LatestSnapshot(
        id=found.id,
        cluster_name=cluster.name,
        snapshot_time=format_time(found.at),
        dimension_type=CLUSTER_DIMENSION,
        dimension_key="",
        dimension_value="",
        total_gpu_capacity=found.gpus,
        allocated_gpu_count=round_up_gpus(found.allocated_milli),
        allocation_details=_allocation_details(found),
        created_at=format_time(found.created_at),
    )


@endpoint(
    "GET",
    f"{BASE_PATH}/snapshots",
    family=AGGREGATION,
    action=Action.MONITOR,
    params=SnapshotListParams,
    result=list[SnapshotListItem],
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_snapshots(call: Call[SnapshotListParams]) -> list[SnapshotListItem] | StreamedList:
    """The snapshots of a time range, oldest first; by default of the last 24 hours."""
    params = call.params
    cluster = await call.services.usage.get_cluster(params.cluster)
    time_range = params.time_range_until(call.services.clock.now())
    found = call.services.usage.stream_snapshots(call.optional_actor, cluster.id, *time_range, details=params.details)
    return await list_or_stream(found, lambda snapshot: _to_list_item(cluster, snapshot))


def _to_list_item(cluster: Cluster, snapshot: AllocationSnapshot) -> SnapshotListItem:
    return SnapshotListItem(
        id=snapshot.id,
        cluster_name=cluster.name,
        snapshot_time=format_time(snapshot.at),
        dimension_type=CLUSTER_DIMENSION,
        total_gpu_capacity=snapshot.gpus,
        allocated_gpu_count=round_up_gpus(snapshot.allocated_milli),
        allocation_details=_allocation_details(snapshot),
        created_at=format_time(snapshot.created_at),
    )


def _allocation_details(snapshot: AllocationSnapshot) -> AllocationDetails:
    if snapshot.workloads is None:
        return AllocationDetails()
    annotations: dict[str, dict[str, AnnotationAllocationDetail]] = {}
    for (key, value), group in group_by_annotation(snapshot.workloads):
        detail = AnnotationAllocationDetail(round_up_gpus(group.gpu_milli), _percent(group), len(group.workloads))
        annotations.setdefault(key, {})[value] = detail
    namespaces = {
        name: NamespaceAllocationDetail(
            round_up_gpus(group.gpu_milli),
            _percent(group),
            len(group.workloads),
            [_workload_detail(workload) for workload in group.workloads],
        )
        for name, group in group_by_namespace(snapshot.workloads)
    }
    return AllocationDetails(namespaces, annotations)


def _workload_detail(workload: SnapshotWorkload) -> WorkloadAllocationDetail:
    return WorkloadAllocationDetail(
        workload.uid,
        workload.name,
        workload.namespace,
        workload.kind,
        round_up_gpus(workload.gpu_milli),
        _percent(AllocationGroup([workload])),
    )


def _percent(group: AllocationGroup) -> float:
    return round(100 * (group.mean_utilization or 0.0), DECIMALS)
