"""From a workload to what Run:ai's clients read."""

from typing import Any

from stoker.api.runai.shapes import (
    ActionsSupport,
    AllocatedResources,
    Amount,
    Connection,
    PendingMessage,
    PhaseReason,
    Quantity,
    RequestedPods,
    RequestedResources,
    WorkloadCondition,
)
from stoker.api.runai.words import API_V2, TENANT_ID, moment
from stoker.domain.clock import rfc3339
from stoker.domain.inventory import FRAMEWORKS, Listed, class_of
from stoker.domain.lifecycle import ran_ms, waited_ms
from stoker.domain.quantity import show_bytes
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import FROM_CLI, Phase, Spec, Workload
from stoker.services.explain import Answer

OVER_QUOTA = "over_quota"
K8S_PHASES = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.INITIALIZING: "Pending",
    Phase.RESUMING: "Pending",
    Phase.COMPLETED: "Succeeded",
    Phase.STOPPED: "Suspended",
}
REASONS = {
    "not_yet": "Scheduled for later",
    "waits_for": "Waits for other workloads",
    "behind_head": "Waits for its turn",
    "behind_priority": "Waits behind a higher priority",
    "preempting": "Waits for others to leave",
    "over_quota": "Over quota",
    "node_unusable": "Its node takes nothing new",
    "node_taken": "Not enough resources on its node",
    "no_room": "Not enough resources in the node pool",
    "dependency_failed": "A dependency failed",
}


def fields(listed: Listed, now: int) -> dict[str, Any]:
    """Everything that the list and the detail have in common."""
    workload, held = listed.workload, listed.held
    spec = workload.spec
    shown: dict[str, Any] = {
        **_identity(listed),
        **_times(listed, now),
        "running_pods": held.running_pods,
        "workload_requested_resources": _requested(spec, spec.total),
        "pods_requested_resources": _requested(spec, spec.resources),
        "allocated_resources": AllocatedResources(
            gpu=held.gpu_milli / MILLI, cpu=held.cpu_milli / MILLI, cpu_memory=show_bytes(held.memory_bytes)
        ),
        "actions_support": ActionsSupport(delete=workload.deleted_at is None, suspend=_is_suspendable(workload)),
        "phase": str(workload.phase),
        "k8s_phase": K8S_PHASES.get(workload.phase, "Failed" if workload.phase is Phase.FAILED else "Running"),
        "phase_message": (workload.waiting or workload.message) if workload.phase.queued else workload.message,
        "phase_reason": phase_reason(workload, workload.waiting_code) if workload.phase.queued else None,
        "conditions": [
            WorkloadCondition(each.type, "True", each.message, each.reason, rfc3339(each.at))
            for each in listed.conditions
        ],
        "requested_pods": RequestedPods(spec.replicas),
        "requested_node_pools": list(spec.node_pools),
        "current_node_pools": list(workload.current_pools),
        "images": [spec.image] if spec.image else [],
        "urls": [],
        "datasources": [],
        "environments": [],
        "external_connections": _connections(spec),
        "additional_fields": {"workloadId": workload.slug, "description": workload.description},
        "preemptible": workload.preemptible,
        "environment_variables": dict(spec.env),
        "command": spec.command_and_arguments[0],
        "arguments": spec.command_and_arguments[1],
        "idle_gpus": -(-held.idle_milli // MILLI),
        "idle_allocated_gpus": held.idle_milli / MILLI,
    }
    if framework := FRAMEWORKS.get(workload.kind):
        shown["distributed_framework"] = framework
    return shown


def number_text(value: float) -> str:
    """A number where numbers are text: `8`, `0.5`."""
    return str(int(value)) if value == int(value) else f"{value:.6f}".rstrip("0")


def pending_messages(answer: Answer) -> list[PendingMessage]:
    """Why it waits, for each node pool that it may go to."""
    if not answer.code:
        return []
    over = answer.code == OVER_QUOTA
    return [
        PendingMessage(
            node_pool=pool,
            phase_reason=phase_reason(answer.workload, answer.code) or "OverLimit",
            reason=REASONS.get(answer.code, "Waits"),
            org_type="PROJECT" if over else None,
            user_message=answer.sentence,
        )
        for pool in answer.workload.spec.node_pools
    ]


def phase_reason(workload: Workload, code: str) -> PhaseReason | None:
    """Of a workload that waits for this."""
    if code != OVER_QUOTA:
        return None
    return "OverLimit" if workload.preemptible else "NonPreemptibleOverQuota"


def _identity(listed: Listed) -> dict[str, Any]:
    workload = listed.workload
    return {
        "tenant_id": TENANT_ID,
        "source": "CLI" if workload.origin_api == FROM_CLI else "Control-plane",
        "source_api": "WorkloadsV2" if workload.origin_api == API_V2 else None,
        "type": str(workload.kind),
        "category": str(workload.category),
        "name": workload.name,
        "id": workload.uid,
        "priority": workload.priority,
        "priority_class_name": class_of(workload.priority),
        "submitted_by": workload.user_name,
        "cluster_id": workload.cluster_id,
        "project_name": listed.workspace,
        "project_id": str(workload.workspace_id),
        "department_name": listed.department,
        "department_id": str(listed.department_id),
        "namespace": workload.namespace,
    }


def _times(listed: Listed, now: int) -> dict[str, Any]:
    workload = listed.workload
    updated = max(workload.phase_at, workload.deleted_at or 0, *(each.at for each in listed.conditions[-1:]))
    return {
        "created_at": rfc3339(workload.submitted_at),
        "phase_updated_at": rfc3339(workload.phase_at),
        "k8s_phase_updated_at": rfc3339(workload.phase_at),
        "updated_at": rfc3339(updated),
        "completed_at": moment(workload.ended_at),
        "deleted_at": moment(workload.deleted_at),
        "guaranteed_runtime_ends_at": moment(workload.guaranteed_until),
        "total_pending_time_seconds": waited_ms(workload, now) // 1000,
        "total_running_time_seconds": ran_ms(workload, now) // 1000,
    }


def _requested(spec: Spec, amounts: Resources) -> RequestedResources:
    memory = spec.shown_memory if amounts == spec.resources and spec.shown_memory else show_bytes(amounts.memory_bytes)
    return RequestedResources(
        gpu=Amount(amounts.gpu_milli / MILLI, amounts.gpu_milli / MILLI),
        cpu=Amount(amounts.cpu_milli / MILLI, amounts.cpu_milli / MILLI),
        cpu_memory=Quantity(memory, memory),
        gpu_request_type="portion" if amounts.gpu_milli else None,
    )


def _connections(spec: Spec) -> list[Connection]:
    service = spec.service
    return [Connection("service", "custom", service.service_type, service.target_port)] if service else []


def _is_suspendable(workload: Workload) -> bool:
    """Whether it can be suspended, or resumed."""
    return workload.deleted_at is None and not workload.phase.terminal and not workload.phase.leaving
