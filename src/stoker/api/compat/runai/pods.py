"""Pods: all that the caller may see, or those of one workload."""

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import Params, Whole
from stoker.api.runai.filters import filters_in, with_plus
from stoker.api.runai.organisation import CountAnswer
from stoker.api.runai.words import TENANT_ID, moment, number, priority_class
from stoker.domain.clock import parse_rfc3339, rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.listing import PodFilter, PodQuery, Window
from stoker.domain.permissions import Action
from stoker.domain.quantity import show_bytes
from stoker.domain.resources import Resources
from stoker.services.inside import main_container
from stoker.services.pods import FoundPods, PodEntry

FIELDS = {
    "clusterId": "cluster",
    "workloadId": "workload",
    "revisionId": "revision",
    "nodeName": "node",
    "currentNodepool": "pool",
    "createdAt": "created_at",
    "completedAt": "ended_at",
    "deletedAt": "deleted_at",
}
TIMES = frozenset({"createdAt", "completedAt", "deletedAt"})
ON_TEXT = frozenset({"=@", "!@", "=^", "=$"})
PodField = Literal[
    "clusterId", "workloadId", "revisionId", "nodeName", "currentNodepool", "createdAt", "completedAt", "deletedAt"
]
_FILTER = re.compile(rf"({'|'.join(FIELDS)})(==|!=|<=|>=|=@|!@|=\^|=\$)(.+)", re.DOTALL)


class PodCountParams(Params, frozen=True, kw_only=True, rename="camel"):
    deleted: bool = False
    completed: Literal["true", "false", "all"] = "all"
    filter_by: Annotated[Whole, Meta(description="Field, operator, value.")] = ()
    search: Annotated[str, Meta(max_length=200, description="Part of a pod's or a node's name.")] = ""


class PodParams(PodCountParams, frozen=True, kw_only=True, rename="camel"):
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    sort_by: PodField | None = None
    sort_order: Literal["asc", "desc"] = "asc"
    verbosity: Literal["brief", "full"] = "brief"


class PodsOfWorkload(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]
    deleted: Annotated[bool, Meta(description="None unless the workload is deleted.")] = False
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    search: Annotated[str, Meta(max_length=200)] = ""


class PodContainer(Struct, frozen=True, rename="camel"):
    name: str
    image: str
    started_at: str | None


class Cores(Struct, frozen=True):
    request: float


class Bytes(Struct, frozen=True):
    request: str


class PodRequest(Struct, frozen=True, rename="camel"):
    gpu: Cores
    cpu: Cores
    cpu_memory: Bytes


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


@endpoint("GET", "/api/v1/workloads/pods", family=RUNAI, action=Action.WORKLOAD_LIST, params=PodParams)
async def list_pods(call: Call[PodParams]) -> PodsAnswer:
    """The pods of the caller's projects, also those that have ended; `full` adds the names of what they belong to."""
    asked = call.params
    query = _query(asked, FIELDS[asked.sort_by] if asked.sort_by else "", descending=asked.sort_order == "desc")
    window = Window(asked.offset, asked.limit)
    found = await call.services.pods.browse(call.actor, query, window)
    return _answer(found, window, full=asked.verbosity == "full")


@endpoint("GET", "/api/v1/workloads/pods/count", family=RUNAI, action=Action.WORKLOAD_LIST, params=PodCountParams)
async def count_pods(call: Call[PodCountParams]) -> CountAnswer:
    """How many pods there are."""
    return CountAnswer(await call.services.pods.count(call.actor, _query(call.params)))


@endpoint(
    "GET", "/api/v1/workloads/{workloadId}/pods", family=RUNAI, action=Action.WORKLOAD_READ, params=PodsOfWorkload
)
async def list_pods_of_workload(call: Call[PodsOfWorkload]) -> PodsAnswer:
    """The pods of a workload, of all its attempts, also of one that is deleted."""
    asked = call.params
    window = Window(asked.offset, asked.limit)
    query = PodQuery(workload_uid=asked.workload_id, deleted=asked.deleted or None, search=asked.search)
    return _answer(await call.services.pods.browse(call.actor, query, window), window, full=False)


def _query(asked: PodCountParams, sort: str = "", *, descending: bool = False) -> PodQuery:
    return PodQuery(
        deleted=asked.deleted,
        ended=None if asked.completed == "all" else asked.completed == "true",
        search=asked.search,
        filters=tuple(_filter(text) for text in filters_in(asked.filter_by, FIELDS)),
        sort=sort,
        descending=descending,
    )


def _filter(text: str) -> PodFilter:
    found = _FILTER.fullmatch(text)
    if found is None:
        use = f'Use one such as "nodeName==node-1"; fields are {", ".join(FIELDS)}.'
        raise bad_request("filterBy", f'"{text[:80]}" is not a filter. {use}')
    word, operator, value = found.groups()
    if word in TIMES:
        at = parse_rfc3339(with_plus(value))
        if operator in ON_TEXT or at is None:
            raise bad_request("filterBy", f"{word} is a time: compare it by ==, !=, <= or >= with RFC 3339.")
        return PodFilter(FIELDS[word], operator, at)
    if word == "revisionId":
        if operator in ON_TEXT or not (value.isascii() and value.isdigit() and len(value) < 10):
            raise bad_request("filterBy", "revisionId is a number: compare it by ==, !=, <= or >=.")
        return PodFilter(FIELDS[word], operator, int(value))
    return PodFilter(FIELDS[word], operator, value)


def _answer(found: FoundPods, window: Window, *, full: bool) -> PodsAnswer:
    rows = [_row(entry, full=full) for entry in found.entries]
    return PodsAnswer(window.offset + window.limit if found.more else None, rows)


def _row(entry: PodEntry, *, full: bool) -> PodRow:
    pod = entry.pod
    asked = pod.resources
    held = Resources() if pod.phase.ended else asked
    changed = rfc3339(pod.ended_at or pod.started_at or pod.created_at)
    return PodRow(
        name=pod.name,
        priority_class_name=priority_class(entry.priority),
        id=pod.uid,
        workload_id=pod.workload_uid,
        cluster_id=entry.cluster_id,
        project_id=str(entry.workspace_id),
        node_name=pod.node,
        created_at=rfc3339(pod.created_at),
        completed_at=moment(pod.ended_at),
        containers=[PodContainer(main_container(entry.kind), entry.image, moment(pod.started_at))],
        current_node_pool=entry.pool,
        requested_node_pools=list(entry.node_pools),
        requested_resources=PodRequest(
            Cores(number(asked.gpu_milli)), Cores(number(asked.cpu_milli)), Bytes(show_bytes(asked.memory_bytes))
        ),
        allocated_resources=PodAllocated(number(held.gpu_milli), number(held.cpu_milli), show_bytes(held.memory_bytes)),
        k8s_phase="Failed" if pod.phase == "Lost" else str(pod.phase),
        tenant_id=TENANT_ID,
        k8s_phase_updated_at=changed,
        updated_at=changed,
        deleted_at=moment(entry.deleted_at),
        workload_name=entry.workload if full else None,
        project_name=entry.workspace if full else None,
    )
