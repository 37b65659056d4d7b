"""The operations on workloads: create, list, get, change, delete, stop, clone, and the batches."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta, structs
from starlette.responses import Response

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import SAFE, STATUS, encode
from stoker.api.params import NoParams, Params
from stoker.api.safe.shapes import (
    BatchAnswer,
    BatchBody,
    BatchFailure,
    Created,
    CreateWorkload,
    Detail,
    DryRun,
    ListAnswer,
    PatchWorkload,
)
from stoker.api.safe.translate import detail, edit_of, list_item, new_workload
from stoker.api.safe.words import PHASES, phases_of
from stoker.api.times import optional_instant
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.listing import Window, WorkloadQuery, WorkloadSort
from stoker.domain.permissions import Action
from stoker.domain.workload import Kind

Fuzzy = Annotated[str, Meta(max_length=200, description="Part of it, in any case.")]
Moment = Annotated[str, Meta(max_length=40, description="RFC 3339, inclusive.", examples=["2025-01-15T10:30:00.000Z"])]
PhaseWord = Literal["Pending", "Running", "Succeeded", "Failed", "Stopped", "Updating"]
SORTS = {
    "create_time": WorkloadSort.SUBMITTED,
    "start_time": WorkloadSort.STARTED,
    "end_time": WorkloadSort.ENDED,
    "priority": WorkloadSort.PRIORITY,
    "display_name": WorkloadSort.NAME,
    "phase": WorkloadSort.PHASE,
    "runtime": WorkloadSort.RUNTIME,
    "gpu": WorkloadSort.GPU,
}
SortWord = Literal["create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu"]


class CreateParams(Params, frozen=True, kw_only=True, rename="camel"):
    dry_run: Annotated[bool, Meta(description="Check everything and write nothing.")] = False


class ListParams(Params, frozen=True, kw_only=True, rename="camel"):
    workspace_id: str = ""
    cluster_id: str = ""
    user_id: str = ""
    user_name: Fuzzy = ""
    phase: Annotated[tuple[PhaseWord, ...], Meta(description="One or several, with commas between them.")] = ()
    kind: Annotated[tuple[Kind, ...], Meta(description="One or several, with commas between them.")] = ()
    description: Fuzzy = ""
    workload_id: Fuzzy = ""
    since: Moment | None = None
    until: Moment | None = None
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    sort_by: SortWord = "create_time"
    order: Literal["desc", "asc"] = "desc"


class WorkloadPath(Params, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID.")]


@endpoint(
    "POST",
    "/api/custom/workloads",
    family=SAFE,
    action=Action.WORKLOAD_CREATE,
    params=CreateParams,
    body=CreateWorkload,
    result=Created | DryRun,
    errors=(ErrorCode.NEVER_FITS, ErrorCode.NOT_FOUND),
    creates=True,
)
async def create_workload(call: Call[CreateParams]) -> Created | DryRun:
    """Submit a workload. It is queued, and starts as soon as there is room for all of it."""
    new = new_workload(call.body, call.request.headers.get("user-agent", ""))
    if call.params.dry_run:
        verdict = await call.services.workloads.rehearse(call.actor, new)
        return DryRun(True, verdict.accepted, verdict.message, verdict.place)
    return Created((await call.services.workloads.create(call.actor, new, call.once)).slug)


@endpoint(
    "GET",
    "/api/custom/workloads",
    family=SAFE,
    action=Action.WORKLOAD_LIST,
    params=ListParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_workloads(call: Call[ListParams]) -> ListAnswer:
    """The workloads of the caller's workspaces, newest first."""
    asked = call.params
    query = WorkloadQuery(
        workspace=asked.workspace_id,
        cluster=asked.cluster_id,
        user_id=asked.user_id,
        user_text=asked.user_name,
        phases=phases_of(asked.phase or (PHASES.values() if asked.sort_by == "phase" else ())),
        kinds=asked.kind,
        description_text=asked.description,
        slug_text=asked.workload_id,
        since=optional_instant(asked.since, "since"),
        until=optional_instant(asked.until, "until"),
        sort=SORTS[asked.sort_by],
        descending=asked.order == "desc",
    )
    found = await call.services.workloads.browse(call.actor, query, Window(asked.offset, asked.limit))
    now = call.services.clock.now()
    return ListAnswer(found.total, [list_item(row, now) for row in found.items])


@endpoint("GET", "/api/custom/workloads/{name}", family=SAFE, action=Action.WORKLOAD_READ, params=WorkloadPath)
async def read_workload(call: Call[WorkloadPath]) -> Detail:
    """One workload with its conditions and pods."""
    return detail(await call.services.workloads.read(call.actor, call.params.name), call.services.clock.now())


@endpoint(
    "PATCH",
    "/api/custom/workloads/{name}",
    family=SAFE,
    action=Action.WORKLOAD_UPDATE,
    params=WorkloadPath,
    body=PatchWorkload,
    status=204,
    errors=(ErrorCode.STATE_FORBIDS, ErrorCode.NEVER_FITS),
)
async def patch_workload(call: Call[WorkloadPath]) -> None:
    """Change what is given. What runs is replaced when its image, script, environment or size changes."""
    await call.services.workloads.edit(call.actor, call.params.name, edit_of(call.body))


@endpoint(
    "DELETE",
    "/api/custom/workloads/{name}",
    family=SAFE,
    action=Action.WORKLOAD_DELETE,
    params=WorkloadPath,
    status=204,
)
async def delete_workload(call: Call[WorkloadPath]) -> None:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/custom/workloads/{name}/stop",
    family=SAFE,
    action=Action.WORKLOAD_STOP,
    params=WorkloadPath,
    status=204,
)
async def stop_workload(call: Call[WorkloadPath]) -> None:
    """Stop a workload. One that has ended stays as it is."""
    await call.services.workloads.stop(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/custom/workloads/delete",
    family=SAFE,
    action=Action.WORKLOAD_DELETE,
    body=BatchBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND,),
    partly=BatchAnswer,
)
async def delete_workloads(call: Call[NoParams]) -> Response:
    """Delete many. 207 says which could not be deleted."""
    return await _each(call, lambda ref: call.services.workloads.delete(call.actor, ref))


@endpoint(
    "POST",
    "/api/custom/workloads/stop",
    family=SAFE,
    action=Action.WORKLOAD_STOP,
    body=BatchBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND,),
    partly=BatchAnswer,
)
async def stop_workloads(call: Call[NoParams]) -> Response:
    """Stop many. 207 says which could not be stopped."""
    return await _each(call, lambda ref: call.services.workloads.stop(call.actor, ref))


@endpoint(
    "POST",
    "/api/custom/workloads/clone",
    family=SAFE,
    action=Action.WORKLOAD_CREATE,
    body=BatchBody,
    status=204,
    errors=(ErrorCode.NOT_FOUND, ErrorCode.NEVER_FITS),
    partly=BatchAnswer,
    creates=True,
)
async def clone_workloads(call: Call[NoParams]) -> Response:
    """Submit copies that belong to the caller; `X-Workload-Ids` has their ids in the order of the sources."""
    once = call.once
    await call.services.workloads.reserve(call.actor, once)
    made: dict[str, str] = {}

    async def clone(ref: str) -> None:
        each = None if once is None else structs.replace(once, key=f"{once.key}\n{ref}")
        made[ref] = (await call.services.workloads.clone(call.actor, ref, each)).slug

    response = await _each(call, clone)
    body: BatchBody = call.body
    response.headers["X-Workload-Ids"] = ",".join(made[ref] for ref in dict.fromkeys(body.workload_ids) if ref in made)
    return response


async def _each(call: Call[NoParams], act: Callable[[str], Awaitable[None]]) -> Response:
    """Do it to each once: 204 when all worked, 207 when some did, the first failure's status when none did."""
    body: BatchBody = call.body
    refs = list(dict.fromkeys(body.workload_ids))
    outcomes = await asyncio.gather(*(_outcome(act, ref) for ref in refs))
    errors = {ref: error for ref, error in zip(refs, outcomes, strict=True) if error is not None}
    if not errors:
        return Response(status_code=204)
    failed = []
    for ref, error in errors.items():
        shown = SAFE.failure(error, STATUS[error.code], call.origin.trace_id)
        failed.append(BatchFailure(ref, shown.error_code, shown.error_message))
    succeeded = [ref for ref in refs if ref not in errors]
    status = 207 if succeeded else STATUS[next(iter(errors.values())).code]
    return Response(encode(BatchAnswer(succeeded, failed)), status, media_type="application/json")


async def _outcome(act: Callable[[str], Awaitable[None]], ref: str) -> StokerError | None:
    try:
        await act(ref)
    except StokerError as error:
        return error
    return None
