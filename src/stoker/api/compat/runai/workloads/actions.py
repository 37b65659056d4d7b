"""Actions on workloads by type, and on several at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from stoker.api.compat.runai.enums import KINDS_BY_TYPE
from stoker.api.compat.runai.workloads.submit_endpoints import (
    SUBMIT_ERRORS,
    AnySubmitted,
    InferenceUpdate,
    find_workspace,
    to_submitted,
)
from stoker.api.compat.runai.workloads.submit_mapping import to_inference_edit
from stoker.api.compat.runai.workloads.submit_schemas import InferenceSpec
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import RUNAI
from stoker.api.http.params import NoParams, Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.names import new_uuid4
from stoker.domain.workload.model import Workload
from stoker.services.container import ServiceContainer
from stoker.wire.base import RequestBody

MAX_BATCH_IDS = 100
TYPED_WORKLOAD_PATH = "/api/v1/workloads/{workloadType}/{workloadId}"


class TypedWorkloadPath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_type: Annotated[str, Meta(max_length=63, description=f"One of {', '.join(KINDS_BY_TYPE)}.")]
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]


class ActionBody(RequestBody, frozen=True, kw_only=True):
    ids: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(min_length=1, max_length=MAX_BATCH_IDS)
    ]
    action: Literal["delete", "suspend", "resume"]


class Accepted(Struct, frozen=True):
    code: int
    message: str


class ActionFailure(Struct, frozen=True):
    id: str
    code: int
    message: str


class ActionAnswer(Struct, frozen=True):
    """`id` is the id of the batch."""

    id: str
    succeeded: list[str]
    failed: list[ActionFailure]


@endpoint(
    "GET",
    TYPED_WORKLOAD_PATH,
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=TypedWorkloadPath,
    result=AnySubmitted,
)
async def read_submission(call: Call[TypedWorkloadPath]) -> AnySubmitted:
    """A workload as it was submitted, with its current status."""
    workload = await _read_typed_workload(call)
    return to_submitted(workload, await find_workspace(call, workload))


@endpoint(
    "PATCH",
    TYPED_WORKLOAD_PATH,
    family=RUNAI,
    action=Action.WORKLOAD_UPDATE,
    params=TypedWorkloadPath,
    body=InferenceUpdate,
    result=AnySubmitted,
    status=202,
    errors=(*SUBMIT_ERRORS, ErrorCode.CONFLICT),
)
async def update_inference(call: Call[TypedWorkloadPath]) -> AnySubmitted:
    """Change the spec, replicas or priority of an inference; pods are replaced one by one."""
    body: InferenceUpdate = call.body
    workload = await _read_typed_workload(call)
    if not workload.uses_rolling_update:
        raise bad_request(
            "workloadType", f"only inferences are changed here. Use PUT /api/v2/workloads/{workload.uid}."
        )
    edit = to_inference_edit(workload, body.spec or InferenceSpec())
    await call.services.workload_updates.update(call.actor, workload.uid, edit)
    return to_submitted(await _read_typed_workload(call), await find_workspace(call, workload))


@endpoint(
    "DELETE", TYPED_WORKLOAD_PATH, family=RUNAI, action=Action.WORKLOAD_DELETE, params=TypedWorkloadPath, status=202
)
async def delete_by_type(call: Call[TypedWorkloadPath]) -> Accepted:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, (await _read_typed_workload(call)).uid)
    return Accepted(202, "The workload is deleted once its pods have gone.")


@endpoint(
    "POST",
    f"{TYPED_WORKLOAD_PATH}/suspend",
    family=RUNAI,
    action=Action.WORKLOAD_STOP,
    params=TypedWorkloadPath,
    status=202,
    errors=(ErrorCode.CONFLICT,),
)
async def suspend_by_type(call: Call[TypedWorkloadPath]) -> Accepted:
    """Stop a workload; it can be resumed later."""
    await call.services.workloads.suspend(call.actor, (await _read_typed_workload(call)).uid)
    return Accepted(202, "The workload is stopped once its pods have gone.")


@endpoint(
    "POST",
    f"{TYPED_WORKLOAD_PATH}/resume",
    family=RUNAI,
    action=Action.WORKLOAD_RESUME,
    params=TypedWorkloadPath,
    status=202,
    errors=(ErrorCode.CONFLICT,),
)
async def resume_by_type(call: Call[TypedWorkloadPath]) -> Accepted:
    """Queue a stopped workload again."""
    await call.services.workloads.resume(call.actor, (await _read_typed_workload(call)).uid)
    return Accepted(202, "The workload is queued again.")


@endpoint(
    "POST", "/api/v1/workloads/batch", family=RUNAI, action=Action.WORKLOAD_LIST, body=ActionBody, result=ActionAnswer
)
async def act_on_many(call: Call[NoParams]) -> ActionAnswer:
    """Delete, suspend or resume up to 100 workloads of any type; the response has a result for each."""
    body: ActionBody = call.body
    ids = list(dict.fromkeys(body.ids))
    act = _action_for(call.services, body.action)
    failures = await asyncio.gather(*(_run_action(call, act, each) for each in ids))
    failed = {failure.id: failure for failure in failures if failure is not None}
    return ActionAnswer(new_uuid4(), [each for each in ids if each not in failed], list(failed.values()))


WorkloadAction = Callable[..., Awaitable[None]]


def _action_for(services: ServiceContainer, action: str) -> WorkloadAction:
    acts: dict[str, WorkloadAction] = {
        "delete": services.workloads.delete,
        "suspend": services.workloads.suspend,
        "resume": services.workloads.resume,
    }
    return acts[action]


async def _run_action(call: Call[NoParams], act: WorkloadAction, workload_id: str) -> ActionFailure | None:
    try:
        await act(call.actor, workload_id)
    except StokerError as error:
        return ActionFailure(workload_id, HTTP_STATUS[error.code], f"{error.message} {error.hint}".strip())
    return None


async def _read_typed_workload(call: Call[TypedWorkloadPath]) -> Workload:
    """The workload, if it is of the type in the path; 404 otherwise."""
    asked = call.params
    workload = (await call.services.workload_queries.read(call.actor, asked.workload_id)).entry.workload
    if workload.kind not in KINDS_BY_TYPE.get(asked.workload_type, ()):
        raise not_found("workload", asked.workload_id)
    return workload
