"""List, count and read workloads."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI
from stoker.api.params import Params, Whole
from stoker.api.runai.filters import FIELDS, parse_filters
from stoker.api.runai.shapes import RunaiWorkload, RunaiWorkloadDetail
from stoker.api.runai.translate import fields, pending_messages, phase_reason
from stoker.domain.errors import ErrorCode
from stoker.domain.inventory import Field, InventoryQuery
from stoker.domain.listing import Window
from stoker.domain.permissions import Action

WORKLOADS = "/api/v1/workloads"
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


class WhichParams(Params, frozen=True, kw_only=True, rename="camel"):
    cluster: Annotated[str, Meta(description="Only of this cluster, by name or id.")] = ""
    deleted: Annotated[bool, Meta(description="Only those that are deleted.")] = False
    filter_by: Annotated[
        Whole, Meta(description='A field, an operator and a value: "phase==Running"; several are joined by commas.')
    ] = ()
    search: Annotated[str, Meta(max_length=1000, description="Part of a name, id, project, user, type or image.")] = ""

    @property
    def query(self) -> InventoryQuery:
        return InventoryQuery(
            cluster=self.cluster, filters=parse_filters(self.filter_by), search=self.search, deleted=self.deleted
        )


class ListParams(WhichParams, frozen=True, kw_only=True, rename="camel"):
    offset: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    sort_order: Literal["asc", "desc"] = "asc"
    sort_by: SortField | None = None


class WorkloadPath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(max_length=100)]


class WorkloadList(Struct, frozen=True):
    """`next` is the offset of the next page; null on the last one."""

    workloads: list[RunaiWorkload]
    next: int | None = None


class WorkloadNumber(Struct, frozen=True):
    count: int


@endpoint(
    "GET",
    WORKLOADS,
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=ListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_runai_workloads(call: Call[ListParams]) -> WorkloadList:
    """Workloads that the caller may see; those that are deleted only when they are asked for."""
    asked = call.params
    query = structs.replace(
        asked.query,
        sort=FIELDS[asked.sort_by] if asked.sort_by else Field.CREATED,
        descending=asked.sort_order == "desc",
    )
    found = await call.services.inventory.browse(call.actor, query, Window(asked.offset, asked.limit))
    following = asked.offset + asked.limit if found.more else None
    return WorkloadList([RunaiWorkload(**fields(each, found.at)) for each in found.items], following)


@endpoint(
    "GET",
    f"{WORKLOADS}/count",
    family=RUNAI,
    action=Action.WORKLOAD_LIST,
    params=WhichParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def count_runai_workloads(call: Call[WhichParams]) -> WorkloadNumber:
    """How many workloads there are."""
    return WorkloadNumber(await call.services.inventory.count(call.actor, call.params.query))


@endpoint(
    "GET",
    f"{WORKLOADS}/{{workloadId}}",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=WorkloadPath,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_runai_workload(call: Call[WorkloadPath]) -> RunaiWorkloadDetail:
    """One workload, and why it waits if it does. One that is deleted is shown too."""
    found = await call.services.inventory.read(call.actor, call.params.workload_id)
    shown = fields(found.listed, found.at)
    workload = found.listed.workload
    if workload.phase.queued and workload.deleted_at is None:
        answer = await call.services.explain.explain(call.actor, workload.uid)
        shown |= {
            "pending_scheduling_messages": pending_messages(answer),
            "phase_reason": phase_reason(workload, answer.code),
        }
    return RunaiWorkloadDetail(**shown)
