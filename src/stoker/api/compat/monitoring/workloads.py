"""The operations on workloads that read what is written of them: list, detail, hierarchy, metadata."""

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import LENS
from stoker.api.lens.params import ClusterParams, ListParams, WorkloadPath
from stoker.api.lens.words import (
    API_VERSIONS,
    COLOURS,
    STATUSES,
    Status,
    allocation,
    phases_of,
    seconds,
    source,
    unknown_workload,
)
from stoker.domain.errors import ErrorCode
from stoker.domain.monitoring import Facets, Watched, WatchedQuery, WatchedSort
from stoker.domain.ownership import Branch
from stoker.domain.permissions import Action


class WorkloadListItem(Struct, frozen=True, rename="camel"):
    kind: str
    name: str
    namespace: str
    uid: str
    gpu_allocated: int
    gpu_allocation: dict[str, int]
    status: Status
    status_color: str
    start_at: int
    end_at: int
    source: str


class WorkloadPage(Struct, frozen=True):
    data: list[WorkloadListItem]
    total: int


class WorkloadInfoPod(Struct, frozen=True, rename="camel"):
    node_name: str
    pod_namespace: str
    pod_name: str


class WorkloadInfo(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str
    gpu_allocation: dict[str, int]
    pods: list[WorkloadInfoPod]
    start_time: int
    end_time: int
    source: str


@endpoint(
    "GET",
    "/api/workloads",
    family=LENS,
    action=Action.MONITOR,
    params=ListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workloads(call: Call[ListParams]) -> WorkloadPage:
    """Top-level workloads of the fleet, newest start first; what has not started comes last."""
    asked = call.params
    query = WatchedQuery(
        text=asked.name,
        kind=asked.kind,
        namespace=asked.namespace,
        phases=phases_of(asked.status),
        cluster=asked.cluster,
        sort=WatchedSort.ENDED if asked.order_by == "end_at" else WatchedSort.STARTED,
        descending=asked.order == "desc",
    )
    found = await call.services.monitoring.browse(query, asked.window)
    return WorkloadPage([_item(workload) for workload in found.items], found.total)


@endpoint("GET", "/api/workloads/{uid}", family=LENS, action=Action.MONITOR, params=WorkloadPath)
async def read_workload(call: Call[WorkloadPath]) -> WorkloadInfo:
    """One workload and the pods of its last attempt."""
    found = await call.services.monitoring.find(call.params.uid, call.params.cluster)
    if found is None:
        raise unknown_workload(call.params.uid)
    workload = found.workload
    return WorkloadInfo(
        api_version=API_VERSIONS.get(workload.kind, "v1"),
        kind=workload.kind,
        name=workload.name,
        namespace=workload.namespace,
        uid=workload.uid,
        gpu_allocation=allocation(workload.gpus),
        pods=[WorkloadInfoPod(pod.node, workload.namespace, pod.name) for pod in found.pods],
        start_time=seconds(workload.started_at),
        end_time=seconds(workload.ended_at),
        source=source(workload.engine),
    )


@endpoint("GET", "/api/workloads/{uid}/hierarchy", family=LENS, action=Action.MONITOR, params=WorkloadPath)
async def read_hierarchy(call: Call[WorkloadPath]) -> Branch:
    """A workload and everything that it owns, down to the pods."""
    found = await call.services.monitoring.hierarchy(call.params.uid, call.params.cluster)
    if found is None:
        raise unknown_workload(call.params.uid)
    return found


@endpoint(
    "GET",
    "/api/workloadMetadata",
    family=LENS,
    action=Action.MONITOR,
    params=ClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_metadata(call: Call[ClusterParams]) -> Facets:
    """The namespaces and kinds that have workloads."""
    return await call.services.monitoring.facets(call.params.cluster)


def _item(workload: Watched) -> WorkloadListItem:
    held = allocation(workload.gpus)
    status = STATUSES[workload.phase]
    return WorkloadListItem(
        kind=workload.kind,
        name=workload.name,
        namespace=workload.namespace,
        uid=workload.uid,
        gpu_allocated=sum(held.values()),
        gpu_allocation=held,
        status=status,
        status_color=COLOURS[status],
        start_at=seconds(workload.started_at),
        end_at=seconds(workload.ended_at),
        source=source(workload.engine),
    )
