"""Workloads: create, list, read, change, delete, stop and clone, also in batches."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta, structs
from starlette.responses import Response

from stoker.api.compat.management.enums import PHASE_NAMES, phases_shown_as
from stoker.api.compat.management.mapping import to_detail_view, to_edit, to_new_workload, to_summary_view
from stoker.api.compat.management.schemas import BatchBody, CreateWorkload, PatchWorkload, StopBody
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import MANAGEMENT, encode_json
from stoker.api.http.params import NoParams, Params, parse_optional_instant
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.workload_query import (
    WorkloadField,
    WorkloadFilter,
    WorkloadQuery,
    WorkloadScope,
    WorkloadSort,
)
from stoker.domain.workload.spec import Kind
from stoker.wire.management import (
    BatchAnswer,
    BatchFailure,
    CreatedWorkload,
    DryRunOutcome,
    WorkloadDetailView,
    WorkloadSummaryView,
)
from stoker.wire.pages import CountedPage

SubstringFilter = Annotated[str, Meta(max_length=200, description="Part of it, in any case.")]
InstantText = Annotated[
    str, Meta(max_length=40, description="RFC 3339, inclusive.", examples=["2025-01-15T10:30:00.000Z"])
]
PhaseName = Literal["Pending", "Running", "Succeeded", "Failed", "Stopped", "Updating"]
SORT_FIELD_BY_NAME = {
    "create_time": WorkloadField.CREATED_AT,
    "start_time": WorkloadField.STARTED_AT,
    "end_time": WorkloadField.ENDED_AT,
    "priority": WorkloadField.PRIORITY,
    "display_name": WorkloadField.NAME,
    "phase": WorkloadField.PHASE,
    "runtime": WorkloadField.RUNNING_SECONDS,
    "gpu": WorkloadField.GPUS,
}
SortName = Literal["create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu"]


class WorkloadCreateParams(Params, frozen=True, kw_only=True, rename="camel"):
    dry_run: Annotated[bool, Meta(description="Check everything and write nothing.")] = False


class WorkloadListParams(Params, frozen=True, kw_only=True, rename="camel"):
    workspace_id: str = ""
    cluster_id: str = ""
    user_id: str = ""
    user_name: SubstringFilter = ""
    phase: Annotated[tuple[PhaseName, ...], Meta(description="One or several, with commas between them.")] = ()
    kind: Annotated[tuple[Kind, ...], Meta(description="One or several, with commas between them.")] = ()
    description: SubstringFilter = ""
    workload_id: SubstringFilter = ""
    since: InstantText | None = None
    until: InstantText | None = None
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    sort_by: SortName = "create_time"
    order: Literal["desc", "asc"] = "desc"


class ManagementWorkloadPath(Params, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID.")]


@endpoint(
    "POST",
    "/api/custom/workloads",
    family=MANAGEMENT,
    action=Action.WORKLOAD_CREATE,
    params=WorkloadCreateParams,
    body=CreateWorkload,
    result=CreatedWorkload | DryRunOutcome,
    errors=(ErrorCode.UNSCHEDULABLE, ErrorCode.NOT_FOUND),
    idempotent=True,
)
async def create_workload(call: Call[WorkloadCreateParams]) -> CreatedWorkload | DryRunOutcome:
    """Submit a workload. It is queued and starts as soon as all of its pods fit."""
    new = to_new_workload(call.body, call.request.headers.get("user-agent", ""))
    if call.params.dry_run:
        verdict = await call.services.workload_queries.dry_run(call.actor, new)
        return DryRunOutcome(True, verdict.accepted, verdict.message, verdict.queue_position)
    return CreatedWorkload((await call.services.workloads.create(call.actor, new, call.idempotency_key)).slug)


@endpoint(
    "GET",
    "/api/custom/workloads",
    family=MANAGEMENT,
    action=Action.WORKLOAD_LIST,
    params=WorkloadListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workloads(call: Call[WorkloadListParams]) -> CountedPage[WorkloadSummaryView]:
    """The workloads of the caller's workspaces, newest first."""
    asked = call.params
    # Phases are sorted by the names that this API shows for them.
    phase_order = phases_shown_as(asked.phase or PHASE_NAMES.values()) if asked.sort_by == "phase" else ()
    query = WorkloadQuery(
        filters=_filters(asked),
        sort=WorkloadSort(SORT_FIELD_BY_NAME[asked.sort_by], asked.order == "desc", phase_order),
        scope=WorkloadScope(cluster=asked.cluster_id),
    )
    found = await call.services.workload_queries.list_workloads(
        call.actor, query, PageRequest(asked.offset, asked.limit)
    )
    now = call.services.clock.now()
    return CountedPage(found.total, tuple(to_summary_view(row, now) for row in found.items))


@endpoint(
    "GET", "/api/custom/workloads/{name}", family=MANAGEMENT, action=Action.WORKLOAD_READ, params=ManagementWorkloadPath
)
async def read_workload(call: Call[ManagementWorkloadPath]) -> WorkloadDetailView:
    """One workload with its conditions and pods."""
    return to_detail_view(
        await call.services.workload_queries.read(call.actor, call.params.name), call.services.clock.now()
    )


@endpoint(
    "PATCH",
    "/api/custom/workloads/{name}",
    family=MANAGEMENT,
    action=Action.WORKLOAD_UPDATE,
    params=ManagementWorkloadPath,
    body=PatchWorkload,
    status=204,
    errors=(ErrorCode.CONFLICT, ErrorCode.UNSCHEDULABLE),
)
async def patch_workload(call: Call[ManagementWorkloadPath]) -> None:
    """Change the given fields. Running pods are replaced if image, script, environment or size change."""
    await call.services.workload_updates.update(
        call.actor, call.params.name, to_edit(call.body, call.request.headers.get("user-agent", ""))
    )


@endpoint(
    "DELETE",
    "/api/custom/workloads/{name}",
    family=MANAGEMENT,
    action=Action.WORKLOAD_DELETE,
    params=ManagementWorkloadPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def delete_workload(call: Call[ManagementWorkloadPath]) -> None:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/custom/workloads/{name}/stop",
    family=MANAGEMENT,
    action=Action.WORKLOAD_STOP,
    params=ManagementWorkloadPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def stop_workload(call: Call[ManagementWorkloadPath]) -> None:
    """Stop a workload. A workload that has ended is not changed."""
    await call.services.workloads.stop(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/custom/workloads/delete",
    family=MANAGEMENT,
    action=Action.WORKLOAD_DELETE,
    body=BatchBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    multi_status=BatchAnswer,
)
async def delete_workloads(call: Call[NoParams]) -> Response:
    """Delete several workloads. A 207 lists those that could not be deleted."""
    return await _run_batch(call, lambda ref: call.services.workloads.delete(call.actor, ref))


@endpoint(
    "POST",
    "/api/custom/workloads/stop",
    family=MANAGEMENT,
    action=Action.WORKLOAD_STOP,
    body=StopBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.CONFLICT),
    multi_status=BatchAnswer,
    response_headers=("X-Unchanged-Workload-Ids",),
)
async def stop_workloads(call: Call[NoParams]) -> Response:
    """Stop several workloads. A 207 lists those that could not be stopped.

    `X-Unchanged-Workload-Ids` lists those that had ended or were terminating already.
    """
    body: StopBody = call.body
    unchanged: set[str] = set()

    async def stop(ref: str) -> None:
        if not await call.services.workloads.stop(call.actor, ref, body.grace_period_seconds):
            unchanged.add(ref)

    response = await _run_batch(call, stop)
    response.headers["X-Unchanged-Workload-Ids"] = ",".join(
        ref for ref in dict.fromkeys(body.workload_ids) if ref in unchanged
    )
    return response


@endpoint(
    "POST",
    "/api/custom/workloads/clone",
    family=MANAGEMENT,
    action=Action.WORKLOAD_CREATE,
    body=BatchBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.UNSCHEDULABLE, ErrorCode.CONFLICT),
    multi_status=BatchAnswer,
    idempotent=True,
    response_headers=("X-Workload-Ids",),
)
async def clone_workloads(call: Call[NoParams]) -> Response:
    """Submit copies that the caller owns; `X-Workload-Ids` has their ids in the order of the sources."""
    once = call.idempotency_key
    await call.services.workloads.reserve_idempotency_key(call.actor, once)
    made: dict[str, str] = {}

    async def clone(ref: str) -> None:
        each = None if once is None else structs.replace(once, key=f"{once.key}\n{ref}")
        made[ref] = (await call.services.workloads.clone(call.actor, ref, each)).slug

    response = await _run_batch(call, clone)
    body: BatchBody = call.body
    response.headers["X-Workload-Ids"] = ",".join(made[ref] for ref in dict.fromkeys(body.workload_ids) if ref in made)
    return response


async def _run_batch(call: Call[NoParams], act: Callable[[str], Awaitable[None]]) -> Response:
    """Apply an action to each workload: 204 if all succeeded, 207 if some did, else the status of the first failure."""
    body: BatchBody = call.body
    refs = list(dict.fromkeys(body.workload_ids))
    outcomes = await asyncio.gather(*(_try_action(act, ref) for ref in refs))
    errors = {ref: error for ref, error in zip(refs, outcomes, strict=True) if error is not None}
    if not errors:
        return Response(status_code=204)
    failed = []
    for ref, error in errors.items():
        shown = MANAGEMENT.to_error(error, HTTP_STATUS[error.code], call.origin.trace_id)
        failed.append(BatchFailure(ref, shown.error_code, shown.error_message))
    succeeded = [ref for ref in refs if ref not in errors]
    status = 207 if succeeded else HTTP_STATUS[next(iter(errors.values())).code]
    return Response(encode_json(BatchAnswer(tuple(succeeded), tuple(failed))), status, media_type="application/json")


async def _try_action(act: Callable[[str], Awaitable[None]], ref: str) -> StokerError | None:
    try:
        await act(ref)
    except StokerError as error:
        return error
    return None


def _filters(asked: WorkloadListParams) -> tuple[WorkloadFilter, ...]:
    given = (
        (WorkloadField.PHASE, FilterOperator.IN, phases_shown_as(asked.phase)),
        (WorkloadField.KIND, FilterOperator.IN, asked.kind),
        (WorkloadField.USER_ID, FilterOperator.IN, (asked.user_id,) if asked.user_id else ()),
        (WorkloadField.WORKSPACE, FilterOperator.EQUAL, asked.workspace_id),
        (WorkloadField.USER_NAME, FilterOperator.CONTAINS, asked.user_name),
        (WorkloadField.SLUG, FilterOperator.CONTAINS, asked.workload_id),
        (WorkloadField.DESCRIPTION, FilterOperator.CONTAINS, asked.description),
        (WorkloadField.CREATED_AT, FilterOperator.AT_LEAST, parse_optional_instant(asked.since, "since")),
        (WorkloadField.CREATED_AT, FilterOperator.AT_MOST, parse_optional_instant(asked.until, "until")),
    )
    return tuple(
        WorkloadFilter(field, operator, value)
        for field, operator, value in given
        if value is not None and value not in ("", ())
    )
