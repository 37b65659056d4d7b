"""Why a workload waits, and what would start it."""

from typing import Any

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Time, moment
from stoker.api.native.workloads import WorkloadPath
from stoker.api.safe.words import priority_of
from stoker.domain.permissions import Action
from stoker.domain.quantity import show_bytes, show_milli
from stoker.domain.resources import Resources
from stoker.services.explain import Suggestion


class ReasonView(Struct, frozen=True):
    """`code` is empty for a workload that does not wait."""

    code: str
    sentence: str


class AmountView(Struct, frozen=True):
    gpu: str
    cpu: str
    memory: str


class BlockingView(Struct, frozen=True, rename="camel"):
    """`workloadId` is empty for a workload that the caller may not see. One that is preemptible, and keeps its place
    only for a time, is guaranteed it until then."""

    workload_id: str
    phase: str
    why: str
    resource: AmountView
    guaranteed_until: Time | None


class EditView(Struct, frozen=True):
    """`patch` is the body of a PATCH that does it."""

    sentence: str
    patch: dict[str, Any]


class ExplainView(Struct, frozen=True, rename="camel"):
    workload_id: str
    phase: str
    reason: ReasonView
    order: int
    ahead: AmountView
    blocking: list[BlockingView]
    edits: list[EditView]


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/explain",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=WorkloadPath,
)
async def explain_workload(call: Call[WorkloadPath]) -> ExplainView:
    """Why a workload waits, who is in its way, and edits that would start it now. Each edit was tried."""
    answer = await call.services.explain.explain(call.actor, call.params.name)
    return ExplainView(
        answer.workload.slug,
        answer.workload.phase,
        ReasonView(answer.code, answer.sentence),
        answer.order,
        _amount(answer.asked_ahead),
        [
            BlockingView(
                each.workload.slug if each.workload else "",
                each.workload.phase if each.workload else "",
                each.how,
                _amount(each.held),
                moment(each.guaranteed_until),
            )
            for each in answer.in_the_way
        ],
        [EditView(_sentence(each), patch_of(each)) for each in answer.suggestions],
    )


def _sentence(suggestion: Suggestion) -> str:
    if suggestion.priority is not None:
        return f"Raise its priority to {priority_of(suggestion.priority)}."
    return suggestion.sentence


def patch_of(suggestion: Suggestion) -> dict[str, Any]:
    """The suggestion as a PATCH of the management API."""
    patch: dict[str, Any] = {}
    if suggestion.any_node:
        patch["specifiedNodes"] = []
    if suggestion.preemptible is not None:
        patch["preemptible"] = suggestion.preemptible
    if suggestion.priority is not None:
        patch["priority"] = priority_of(suggestion.priority)
    if suggestion.replicas is not None:
        patch["replica"] = suggestion.replicas
    if suggestion.gpu_milli is not None:
        patch["gpu"] = show_milli(suggestion.gpu_milli)
    if suggestion.cpu_milli is not None:
        patch["cpu"] = show_milli(suggestion.cpu_milli)
    if suggestion.memory_bytes is not None:
        patch["memory"] = show_bytes(suggestion.memory_bytes)
    return patch


def _amount(resources: Resources) -> AmountView:
    return AmountView(
        show_milli(resources.gpu_milli), show_milli(resources.cpu_milli), show_bytes(resources.memory_bytes)
    )
