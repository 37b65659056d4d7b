"""Pods of the caller's projects, or of one workload."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from stoker.api.compat.runai.enums import TENANT_ID, optional_rfc3339, priority_class, to_number
from stoker.api.compat.runai.filters import FILTER_PATTERN, restore_plus, split_filters
from stoker.api.compat.runai.org.projects import CountAnswer
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import Params, UnsplitList
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339, parse_rfc3339
from stoker.domain.cluster.quantity import format_bytes
from stoker.domain.cluster.resources import Resources
from stoker.domain.errors import bad_request
from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.pod_query import PodField, PodFilter, PodQuery
from stoker.domain.workload.spec import main_container_name
from stoker.services.workloads.pods import PodEntry, PodPage

FIELD_BY_NAME = {
    "clusterId": PodField.CLUSTER_ID,
    "workloadId": PodField.WORKLOAD_UID,
    "revisionId": PodField.REVISION,
    "nodeName": PodField.NODE,
    "currentNodepool": PodField.NODE_POOL,
    "createdAt": PodField.CREATED_AT,
    "completedAt": PodField.ENDED_AT,
    "deletedAt": PodField.DELETED_AT,
}
TIME_FIELDS = frozenset({"createdAt", "completedAt", "deletedAt"})
PodSortName = Literal[
    "clusterId", "workloadId", "revisionId", "nodeName", "currentNodepool", "createdAt", "completedAt", "deletedAt"
]


class PodCountParams(Params, frozen=True, kw_only=True, rename="camel"):
    deleted: bool = False
    completed: Literal["true", "false", "all"] = "all"
    filter_by: Annotated[UnsplitList, Meta(description="Field, operator, value.")] = ()
    search: Annotated[str, Meta(max_length=200, description="Part of a pod's or a node's name.")] = ""


class PodListParams(PodCountParams, frozen=True, kw_only=True, rename="camel"):
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    sort_by: PodSortName | None = None
    sort_order: Literal["asc", "desc"] = "asc"
    verbosity: Literal["brief", "full"] = "brief"


class WorkloadPodsParams(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]
    deleted: Annotated[bool, Meta(description="None unless the workload is deleted.")] = False
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    search: Annotated[str, Meta(max_length=200)] = ""


class PodContainer(Struct, frozen=True, rename="camel"):
    name: str
    image: str
    started_at: str | None


class CoresRequest(Struct, frozen=True):
    request: float


class BytesRequest(Struct, frozen=True):
    request: str


class PodRequest(Struct, frozen=True, rename="camel"):
    gpu: CoresRequest
    cpu: CoresRequest
    cpu_memory: BytesRequest


class PodAllocated(Struct, frozen=True, rename="camel"):
    gpu: float
    cpu: float
    cpu_memory: str


class PodRow(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    priority_class_name: str
    id: str
    workload_id: str
    cluster_id: str
    project_id: str
    node_name: str
    created_at: str
    completed_at: str | None
    containers: list[PodContainer]
    current_node_pool: str
    requested_node_pools: list[str]
    requested_resources: PodRequest
    allocated_resources: PodAllocated
    k8s_phase: str
    tenant_id: int
    k8s_phase_updated_at: str
    updated_at: str
    deleted_at: str | None
    workload_name: str | None = None
    project_name: str | None = None


class PodsAnswer(Struct, frozen=True):
    next: int | None
    pods: list[PodRow]


@endpoint("GET", "/api/v1/workloads/pods", family=RUNAI, action=Action.WORKLOAD_LIST, params=PodListParams)
async def list_pods(call: Call[PodListParams]) -> PodsAnswer:
    """The pods of the caller's projects, including ended ones; `full` adds the names of their workload and project."""
    asked = call.params
    query = _pod_query(
        asked, FIELD_BY_NAME[asked.sort_by] if asked.sort_by else None, descending=asked.sort_order == "desc"
    )
    window = PageRequest(asked.offset, asked.limit)
    found = await call.services.pods.list_pods(call.actor, query, window)
    return _to_answer(found, window, full=asked.verbosity == "full")


@endpoint("GET", "/api/v1/workloads/pods/count", family=RUNAI, action=Action.WORKLOAD_LIST, params=PodCountParams)
async def count_pods(call: Call[PodCountParams]) -> CountAnswer:
    """The number of pods."""
    return CountAnswer(await call.services.pods.count(call.actor, _pod_query(call.params)))


@endpoint(
    "GET", "/api/v1/workloads/{workloadId}/pods", family=RUNAI, action=Action.WORKLOAD_READ, params=WorkloadPodsParams
)
async def list_pods_of_workload(call: Call[WorkloadPodsParams]) -> PodsAnswer:
    """The pods of all attempts of a workload, also of a deleted one."""
    asked = call.params
    window = PageRequest(asked.offset, asked.limit)
    query = PodQuery(workload_uid=asked.workload_id, deleted=asked.deleted or None, search=asked.search)
    return _to_answer(await call.services.pods.list_pods(call.actor, query, window), window, full=False)


def _pod_query(asked: PodCountParams, sort: PodField | None = None, *, descending: bool = False) -> PodQuery:
    return PodQuery(
        deleted=asked.deleted,
        ended=None if asked.completed == "all" else asked.completed == "true",
        search=asked.search,
        filters=tuple(_parse_filter(text) for text in split_filters(asked.filter_by, FIELD_BY_NAME)),
        sort=sort,
        descending=descending,
    )


def _parse_filter(text: str) -> PodFilter:
    found = FILTER_PATTERN.fullmatch(text)
    if found is None or found["field"] not in FIELD_BY_NAME:
        use = f'Use one such as "nodeName==node-1"; fields are {", ".join(FIELD_BY_NAME)}.'
        raise bad_request("filterBy", f'"{text[:80]}" is not a filter. {use}')
    name, operator, value = found["field"], FilterOperator(found["operator"]), found["value"]
    if name in TIME_FIELDS:
        at = parse_rfc3339(restore_plus(value))
        if operator.is_text_match or at is None:
            raise bad_request("filterBy", f"{name} is a time: compare it by ==, !=, <= or >= with RFC 3339.")
        return PodFilter(FIELD_BY_NAME[name], operator, at)
    if name == "revisionId":
        if operator.is_text_match or not (value.isascii() and value.isdigit() and len(value) < 10):
            raise bad_request("filterBy", "revisionId is a number: compare it by ==, !=, <= or >=.")
        return PodFilter(FIELD_BY_NAME[name], operator, int(value))
    return PodFilter(FIELD_BY_NAME[name], operator, value)


def _to_answer(found: PodPage, window: PageRequest, *, full: bool) -> PodsAnswer:
    rows = [_to_row(entry, full=full) for entry in found.entries]
    return PodsAnswer(window.offset + window.limit if found.has_more else None, rows)


def _to_row(entry: PodEntry, *, full: bool) -> PodRow:
    pod = entry.pod
    asked = pod.resources
    held = Resources() if pod.phase.is_finished else asked
    changed = format_rfc3339(pod.ended_at or pod.started_at or pod.created_at)
    return PodRow(
        name=pod.name,
        priority_class_name=priority_class(entry.priority),
        id=pod.uid,
        workload_id=pod.workload_uid,
        cluster_id=entry.cluster_id,
        project_id=str(entry.workspace_id),
        node_name=pod.node,
        created_at=format_rfc3339(pod.created_at),
        completed_at=optional_rfc3339(pod.ended_at),
        containers=[PodContainer(main_container_name(entry.kind), entry.image, optional_rfc3339(pod.started_at))],
        current_node_pool=entry.pool,
        requested_node_pools=list(entry.node_pools),
        requested_resources=PodRequest(
            CoresRequest(to_number(asked.gpu_milli)),
            CoresRequest(to_number(asked.cpu_milli)),
            BytesRequest(format_bytes(asked.memory_bytes)),
        ),
        allocated_resources=PodAllocated(
            to_number(held.gpu_milli), to_number(held.cpu_milli), format_bytes(held.memory_bytes)
        ),
        k8s_phase="Failed" if pod.phase == "Lost" else str(pod.phase),
        tenant_id=TENANT_ID,
        k8s_phase_updated_at=changed,
        updated_at=changed,
        deleted_at=optional_rfc3339(entry.deleted_at),
        workload_name=entry.workload if full else None,
        project_name=entry.workspace if full else None,
    )
