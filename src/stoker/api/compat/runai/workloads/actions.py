"""What is done to workloads by type, and to many at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import RUNAI, STATUS
from stoker.api.params import NoParams, Params
from stoker.api.runai.specs import InferenceSpec
from stoker.api.runai.submissions import changed_inference, in_our_words
from stoker.api.runai.submit import ERRORS, AnySubmitted, InferenceUpdate, home_of, submitted
from stoker.api.runai.words import TYPES
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.names import new_uuid
from stoker.domain.permissions import Action
from stoker.domain.workload import Workload
from stoker.services.bundle import Services

MOST = 100
BY_TYPE = "/api/v1/workloads/{workloadType}/{workloadId}"


class TypedPath(Params, frozen=True, kw_only=True, rename="camel"):
    workload_type: Annotated[str, Meta(max_length=63, description=f"One of {', '.join(TYPES)}.")]
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]


class ActionBody(Body, frozen=True, kw_only=True):
    ids: Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...], Meta(min_length=1, max_length=MOST)]
    action: Literal["delete", "suspend", "resume"]


class Accepted(Struct, frozen=True):
    code: int
    message: str


class ActionFailure(Struct, frozen=True):
    id: str
    code: int
    message: str


class ActionAnswer(Struct, frozen=True):
    """`id` is of the batch itself."""

    id: str
    succeeded: list[str]
    failed: list[ActionFailure]


@endpoint(
    "GET",
    BY_TYPE,
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=TypedPath,
    result=AnySubmitted,
)
async def read_submission(call: Call[TypedPath]) -> AnySubmitted:
    """A workload as it was submitted, with where it stands."""
    workload = await _found(call)
    return submitted(workload, await home_of(call, workload))


@endpoint(
    "PATCH",
    BY_TYPE,
    family=RUNAI,
    action=Action.WORKLOAD_UPDATE,
    params=TypedPath,
    body=InferenceUpdate,
    result=AnySubmitted,
    status=202,
    errors=(*ERRORS, ErrorCode.STATE_FORBIDS),
)
async def update_inference(call: Call[TypedPath]) -> AnySubmitted:
    """Change what an inference runs, its replicas or its priority; where pods must be replaced, it is one by one."""
    body: InferenceUpdate = call.body
    workload = await _found(call)
    if not workload.kind.rolls:
        raise bad_request(
            "workloadType", f"only inferences are changed here. Use PUT /api/v2/workloads/{workload.uid}."
        )
    try:
        edit = changed_inference(workload, body.spec or InferenceSpec())
        await call.services.workloads.edit(call.actor, workload.uid, edit)
    except StokerError as error:
        raise in_our_words(error) from error
    return submitted(await _found(call), await home_of(call, workload))


@endpoint("DELETE", BY_TYPE, family=RUNAI, action=Action.WORKLOAD_DELETE, params=TypedPath, status=202)
async def delete_by_type(call: Call[TypedPath]) -> Accepted:
    """Stop a workload and hide it."""
    await call.services.workloads.delete(call.actor, (await _found(call)).uid)
    return Accepted(202, "The workload is deleted once its pods have gone.")


@endpoint(
    "POST",
    f"{BY_TYPE}/suspend",
    family=RUNAI,
    action=Action.WORKLOAD_STOP,
    params=TypedPath,
    status=202,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def suspend_by_type(call: Call[TypedPath]) -> Accepted:
    """Stop a workload, to be resumed later."""
    await call.services.workloads.suspend(call.actor, (await _found(call)).uid)
    return Accepted(202, "The workload is stopped once its pods have gone.")


@endpoint(
    "POST",
    f"{BY_TYPE}/resume",
    family=RUNAI,
    action=Action.WORKLOAD_RESUME,
    params=TypedPath,
    status=202,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def resume_by_type(call: Call[TypedPath]) -> Accepted:
    """Queue a stopped workload again."""
    await call.services.workloads.resume(call.actor, (await _found(call)).uid)
    return Accepted(202, "The workload is queued again.")


@endpoint(
    "POST", "/api/v1/workloads/batch", family=RUNAI, action=Action.WORKLOAD_LIST, body=ActionBody, result=ActionAnswer
)
async def act_on_many(call: Call[NoParams]) -> ActionAnswer:
    """Delete, suspend or resume up to 100 workloads of any type; each is told of by itself."""
    body: ActionBody = call.body
    ids = list(dict.fromkeys(body.ids))
    act = _act(call.services, body.action)
    failures = await asyncio.gather(*(_failure(call, act, each) for each in ids))
    failed = {failure.id: failure for failure in failures if failure is not None}
    return ActionAnswer(new_uuid(), [each for each in ids if each not in failed], list(failed.values()))


Act = Callable[..., Awaitable[None]]


def _act(services: Services, action: str) -> Act:
    acts: dict[str, Act] = {
        "delete": services.workloads.delete,
        "suspend": services.workloads.suspend,
        "resume": services.workloads.resume,
    }
    return acts[action]


async def _failure(call: Call[NoParams], act: Act, workload_id: str) -> ActionFailure | None:
    try:
        await act(call.actor, workload_id)
    except StokerError as error:
        return ActionFailure(workload_id, STATUS[error.code], f"{error.message} {error.hint}".strip())
    return None


async def _found(call: Call[TypedPath]) -> Workload:
    """The workload, if it is of the type that the path says; a type that there is not has none."""
    asked = call.params
    workload = (await call.services.workloads.read(call.actor, asked.workload_id)).entry.workload
    if workload.kind not in TYPES.get(asked.workload_type, ()):
        raise not_found("workload", asked.workload_id)
    return workload
