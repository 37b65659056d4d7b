"""Workloads of the fleet: list, detail, hierarchy and metadata."""

from msgspec import Struct

from stoker.api.compat.monitoring.enums import (
    API_VERSIONS,
    COLOR_BY_STATUS,
    STATUS_BY_PHASE,
    Status,
    gpus_by_model,
    phases_with_status,
    source_name,
    to_unix_seconds,
    workload_not_found,
)
from stoker.api.compat.monitoring.params import MonitoringClusterParams, MonitoringListParams, MonitoringWorkloadPath
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import MONITORING
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.workload_query import (
    WorkloadField,
    WorkloadFilter,
    WorkloadQuery,
    WorkloadScope,
    WorkloadSort,
)
from stoker.domain.queries.workload_records import FleetWorkload, WorkloadFacets
from stoker.domain.workload.ownership import OwnerTreeNode


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
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workloads(call: Call[MonitoringListParams]) -> WorkloadPage:
    """Top-level workloads of the fleet, last started first; workloads that have not started come last."""
    asked = call.params
    field = WorkloadField.ENDED_AT if asked.order_by == "end_at" else WorkloadField.STARTED_AT
    query = WorkloadQuery(
        filters=_filters(asked),
        sort=WorkloadSort(field, asked.order == "desc"),
        scope=WorkloadScope(cluster=asked.cluster),
    )
    found = await call.services.fleet_workloads.list_workloads(call.optional_actor, query, asked.page_request)
    return WorkloadPage([_to_list_item(workload) for workload in found.items], found.total)


@endpoint("GET", "/api/workloads/{uid}", family=MONITORING, action=Action.MONITOR, params=MonitoringWorkloadPath)
async def read_workload(call: Call[MonitoringWorkloadPath]) -> WorkloadInfo:
    """One workload and the pods of its last attempt."""
    found = await call.services.fleet_workloads.find_detail(call.optional_actor, call.params.uid, call.params.cluster)
    if found is None:
        raise workload_not_found(call.params.uid)
    workload = found.workload
    return WorkloadInfo(
        api_version=workload.api_version or API_VERSIONS.get(workload.kind, "v1"),
        kind=workload.kind,
        name=workload.name,
        namespace=workload.namespace,
        uid=workload.uid,
        gpu_allocation=gpus_by_model(workload.gpus),
        pods=[WorkloadInfoPod(pod.node, workload.namespace, pod.name) for pod in found.pods],
        start_time=to_unix_seconds(workload.started_at),
        end_time=to_unix_seconds(workload.ended_at),
        source=source_name(workload.engine),
    )


@endpoint(
    "GET", "/api/workloads/{uid}/hierarchy", family=MONITORING, action=Action.MONITOR, params=MonitoringWorkloadPath
)
async def read_hierarchy(call: Call[MonitoringWorkloadPath]) -> OwnerTreeNode:
    """A workload and the objects that it owns, down to the pods."""
    found = await call.services.fleet_workloads.hierarchy(call.optional_actor, call.params.uid, call.params.cluster)
    if found is None:
        raise workload_not_found(call.params.uid)
    return found


@endpoint(
    "GET",
    "/api/workloadMetadata",
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_metadata(call: Call[MonitoringClusterParams]) -> WorkloadFacets:
    """The namespaces and kinds that have workloads."""
    return await call.services.fleet_workloads.facets(call.optional_actor, call.params.cluster)


def _filters(asked: MonitoringListParams) -> tuple[WorkloadFilter, ...]:
    given: tuple[tuple[WorkloadField, tuple[str, ...]], ...] = (
        (WorkloadField.NAMESPACE, (asked.namespace,) if asked.namespace else ()),
        (WorkloadField.KIND, (asked.kind,) if asked.kind else ()),
        (WorkloadField.PHASE, phases_with_status(asked.status)),
    )
    filters = [WorkloadFilter(field, FilterOperator.IN, values) for field, values in given if values]
    if asked.name:
        filters.append(WorkloadFilter(WorkloadField.NAME, FilterOperator.CONTAINS, asked.name))
    return tuple(filters)


def _to_list_item(workload: FleetWorkload) -> WorkloadListItem:
    held = gpus_by_model(workload.gpus)
    status = STATUS_BY_PHASE[workload.phase]
    return WorkloadListItem(
        kind=workload.kind,
        name=workload.name,
        namespace=workload.namespace,
        uid=workload.uid,
        gpu_allocated=sum(held.values()),
        gpu_allocation=held,
        status=status,
        status_color=COLOR_BY_STATUS[status],
        start_at=to_unix_seconds(workload.started_at),
        end_at=to_unix_seconds(workload.ended_at),
        source=source_name(workload.engine),
    )
