"""The endpoint that explains why a workload is pending and what would start it."""

from typing import Any

from stoker.api.compat.management.enums import priority_level
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.native.workloads.operations import WorkloadPath
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.quantity import format_bytes, format_milli
from stoker.domain.cluster.resources import Resources
from stoker.services.workloads.explain import SuggestedChange
from stoker.wire.timestamps import to_optional_timestamp
from stoker.wire.workloads import (
    ExplanationBlocker,
    ExplanationReason,
    ResourceAmounts,
    SuggestedEdit,
    WorkloadExplanation,
)


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/explain",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=WorkloadPath,
)
async def explain_workload(call: Call[WorkloadPath]) -> WorkloadExplanation:
    """Why a workload is pending, which workloads block it, and edits that would start it now. Each edit was tried."""
    call.app.check_explain_rate(call.actor)
    explanation = await call.services.explain.explain(call.actor, call.params.name)
    return WorkloadExplanation(
        explanation.workload.slug,
        explanation.workload.phase,
        ExplanationReason(explanation.code, explanation.sentence),
        explanation.queue_position,
        _amount_view(explanation.requested_ahead),
        tuple(
            ExplanationBlocker(
                blocker.workload.slug if blocker.workload else "",
                blocker.workload.phase if blocker.workload else "",
                blocker.how,
                _amount_view(blocker.allocated),
                to_optional_timestamp(blocker.guaranteed_until),
            )
            for blocker in explanation.blockers
        ),
        tuple(SuggestedEdit(_suggestion_sentence(change), to_patch(change)) for change in explanation.suggestions),
    )


def _suggestion_sentence(suggestion: SuggestedChange) -> str:
    if suggestion.priority is not None:
        return f"Raise its priority to {priority_level(suggestion.priority)}."
    return suggestion.sentence


def to_patch(suggestion: SuggestedChange) -> dict[str, Any]:
    """The suggestion as a PATCH of the management API."""
    patch: dict[str, Any] = {}
    if suggestion.any_node:
        patch["specifiedNodes"] = []
    if suggestion.preemptible is not None:
        patch["preemptible"] = suggestion.preemptible
    if suggestion.priority is not None:
        patch["priority"] = priority_level(suggestion.priority)
    if suggestion.replicas is not None:
        patch["replica"] = suggestion.replicas
    if suggestion.gpu_milli is not None:
        patch["gpu"] = format_milli(suggestion.gpu_milli)
    if suggestion.cpu_milli is not None:
        patch["cpu"] = format_milli(suggestion.cpu_milli)
    if suggestion.memory_bytes is not None:
        patch["memory"] = format_bytes(suggestion.memory_bytes)
    return patch


def _amount_view(resources: Resources) -> ResourceAmounts:
    return ResourceAmounts(
        format_milli(resources.gpu_milli), format_milli(resources.cpu_milli), format_bytes(resources.memory_bytes)
    )
