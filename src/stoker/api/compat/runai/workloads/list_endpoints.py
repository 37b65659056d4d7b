"""List, count and read workloads."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from stoker.api.compat.runai.filters import FIELD_BY_NAME, parse_filters
from stoker.api.compat.runai.workloads.mapping import pending_messages, phase_reason, workload_fields
from stoker.api.compat.runai.workloads.schemas import RunaiWorkload, RunaiWorkloadDetail
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import Params, UnsplitList
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.workload_query import WorkloadField, WorkloadQuery, WorkloadScope, WorkloadSort
from stoker.domain.queries.workload_records import WorkloadRecord
from stoker.services.workloads.explain import PendingExplanation

WORKLOADS_PATH = "/api/v1/workloads"
SortField = Literal[
    "type",
    "name",
    "clusterId",
    "projectId",
    "projectName",
    "departmentId",
    "departmentName",
    "createdAt",
    "deletedAt",
    "submittedBy",
    "phase",
    "completedAt",
    "nodepool",
    "distributedFramework",
    "allocatedGPU",
    "idleGpus",
    "idleAllocatedGpus",
    "phaseUpdatedAt",
    "category",
    "priority",
    "totalPendingTimeSeconds",
    "totalRunningTimeSeconds",
    "priorityClassName",
    "guaranteedRuntimeEndsAt",
    "aiApplicationId",
    "aiApplicationName",
]


class RunaiFilterParams(Params, frozen=True, kw_only=True, rename="camel"):
    cluster: Annotated[str, Meta(description="Only of this cluster, by name or id.")] = ""
    deleted: Annotated[bool, Meta(description="Only those that are deleted.")] = False
    filter_by: Annotated[
        UnsplitList,
        Meta(description='A field, an operator and a value: "phase==Running"; several are joined by commas.'),
    ] = ()
    search: Annotated[str, Meta(max_length=1000, description="Part of a name, id, project, user, type or image.")] = ""

    @property
    def query(self) -> WorkloadQuery:
        scope = WorkloadScope(cluster=self.cluster, deleted=self.deleted, include_deleting=True)
        return WorkloadQuery(filters=parse_filters(self.filter_by), search=self.search, scope=scope)


class RunaiListParams(RunaiFilterParams, frozen=True, kw_only=True, rename="camel"):
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    sort_order: Literal["asc", "desc"] = "asc"
    sort_by: SortField | None = None


class RunaiWorkloadPath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(max_length=100)]


class WorkloadList(Struct, frozen=True):
    """`next` is the offset of the next page; null on the last one."""

    workloads: list[RunaiWorkload]
    next: int | None = None


class WorkloadCount(Struct, frozen=True):
    count: int


@endpoint(
    "GET",
    WORKLOADS_PATH,
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=RunaiListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_runai_workloads(call: Call[RunaiListParams]) -> WorkloadList:
    """The workloads that the caller may see; deleted ones only with `deleted=true`."""
    asked = call.params
    field = FIELD_BY_NAME[asked.sort_by] if asked.sort_by else WorkloadField.CREATED_AT
    query = structs.replace(asked.query, sort=WorkloadSort(field, asked.sort_order == "desc"))
    found = await call.services.workload_search.list_workloads(
        call.actor, query, PageRequest(asked.offset, asked.limit)
    )
    following = asked.offset + asked.limit if found.has_more else None
    return WorkloadList([RunaiWorkload(**workload_fields(each, found.at)) for each in found.items], following)


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/count",
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=RunaiFilterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def count_runai_workloads(call: Call[RunaiFilterParams]) -> WorkloadCount:
    """The number of workloads."""
    return WorkloadCount(await call.services.workload_search.count(call.actor, call.params.query))


@endpoint(
    "GET",
    f"{WORKLOADS_PATH}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=RunaiWorkloadPath,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_runai_workload(call: Call[RunaiWorkloadPath]) -> RunaiWorkloadDetail:
    """One workload, also a deleted one, with the reasons why it is pending."""
    found = await call.services.workload_search.read(call.actor, call.params.workload_id)
    shown = workload_fields(found.record, found.at)
    workload = found.record.workload
    if found.record.status.code and workload.deleted_at is None:
        answer = await _explain_pending(call, found.record)
        shown |= {
            "pending_scheduling_messages": pending_messages(answer),
            "phase_reason": phase_reason(workload, answer.code),
        }
    return RunaiWorkloadDetail(**shown)


async def _explain_pending(call: Call[RunaiWorkloadPath], listed: WorkloadRecord) -> PendingExplanation:
    """The current pending reasons; over the rate limit, those of the last scheduling cycle."""
    try:
        call.app.check_explain_rate(call.actor)
    except StokerError:
        return PendingExplanation(workload=listed.workload, sentence=listed.status.message, code=listed.status.code)
    return await call.services.explain.explain(call.actor, listed.workload.uid)
