"""Mapping of workloads to the bodies that Run:ai's clients read."""

from typing import Any

from stoker.api.compat.runai.enums import ORIGIN_V2, TENANT_ID, optional_rfc3339
from stoker.api.compat.runai.workloads.schemas import (
    ActionsSupport,
    AllocatedResources,
    ExternalConnection,
    NumericRequest,
    PendingMessage,
    PhaseReason,
    QuantityRequest,
    RequestedPods,
    RequestedResources,
    WorkloadCondition,
)
from stoker.domain.clock import format_rfc3339
from stoker.domain.cluster.quantity import format_bytes
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.queries.workload_query import FRAMEWORK_BY_KIND, priority_class_of
from stoker.domain.queries.workload_records import WorkloadRecord
from stoker.domain.workload.durations import total_pending_ms, total_running_ms
from stoker.domain.workload.model import ORIGIN_CLI, Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.services.workloads.explain import PendingExplanation

OVER_QUOTA = "over_quota"
K8S_PHASES = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.SUBMITTED: "Pending",
    Phase.INITIALIZING: "Pending",
    Phase.RESUMING: "Pending",
    Phase.COMPLETED: "Succeeded",
    Phase.STOPPED: "Suspended",
}
REASON_TEXT = {
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
    "not_considered": "Not considered yet",
    "not_driven": "No server drives the cluster",
    "cluster_unreachable": "The cluster cannot be reached",
}


def workload_fields(listed: WorkloadRecord, now: int) -> dict[str, Any]:
    """The fields that the list and the detail have in common."""
    workload, held = listed.workload, listed.allocation
    spec = workload.spec
    shown: dict[str, Any] = {
        **_identity_fields(listed),
        **_time_fields(listed, now),
        "running_pods": held.running_pods,
        "workload_requested_resources": _to_requested(spec, spec.total_resources),
        "pods_requested_resources": _to_requested(spec, spec.resources),
        "allocated_resources": AllocatedResources(
            gpu=held.gpu_milli / MILLI, cpu=held.cpu_milli / MILLI, cpu_memory=format_bytes(held.memory_bytes)
        ),
        "actions_support": ActionsSupport(
            delete=workload.deleted_at is None, suspend=workload.is_suspendable and not workload.phase.is_terminating
        ),
        "phase": str(workload.phase.displayed),
        "k8s_phase": K8S_PHASES.get(workload.phase, "Failed" if workload.phase is Phase.FAILED else "Running"),
        "phase_message": listed.status.message,
        "phase_reason": phase_reason(workload, listed.status.code),
        "conditions": [
            WorkloadCondition(each.type, "True", each.message, each.reason, format_rfc3339(each.at))
            for each in listed.conditions
        ],
        "requested_pods": RequestedPods(spec.replicas),
        "requested_node_pools": list(spec.node_pools),
        "current_node_pools": list(workload.current_node_pools),
        "images": [spec.image] if spec.image else [],
        "urls": [],
        "datasources": [],
        "environments": [],
        "external_connections": _to_connections(spec),
        "additional_fields": {"workloadId": workload.slug, "description": workload.description},
        "preemptible": workload.preemptible,
        "environment_variables": dict(spec.env),
        "command": spec.command_and_arguments[0],
        "arguments": spec.command_and_arguments[1],
        "idle_gpus": -(-held.idle_milli // MILLI),
        "idle_allocated_gpus": held.idle_milli / MILLI,
    }
    if framework := FRAMEWORK_BY_KIND.get(workload.kind):
        shown["distributed_framework"] = framework
    return shown


def format_number(value: float) -> str:
    """A number as a string: `8`, `0.5`."""
    return str(int(value)) if value == int(value) else f"{value:.6f}".rstrip("0")


def pending_messages(answer: PendingExplanation) -> list[PendingMessage]:
    """The pending reason for each allowed node pool."""
    if not answer.code:
        return []
    over = answer.code == OVER_QUOTA
    return [
        PendingMessage(
            node_pool=pool,
            phase_reason=phase_reason(answer.workload, answer.code) or "OverLimit",
            reason=REASON_TEXT.get(answer.code, "Waits"),
            org_type="PROJECT" if over else None,
            user_message=answer.sentence,
        )
        for pool in answer.workload.spec.node_pools
    ]


def phase_reason(workload: Workload, code: str) -> PhaseReason | None:
    """The phase reason of a workload that is pending for this reason code."""
    if code != OVER_QUOTA:
        return None
    return "OverLimit" if workload.preemptible else "NonPreemptibleOverQuota"


def _identity_fields(listed: WorkloadRecord) -> dict[str, Any]:
    workload = listed.workload
    return {
        "tenant_id": TENANT_ID,
        "source": "CLI" if workload.origin_api == ORIGIN_CLI else "Control-plane",
        "source_api": "WorkloadsV2" if workload.origin_api == ORIGIN_V2 else None,
        "type": str(workload.kind),
        "category": str(workload.category),
        "name": workload.name,
        "id": workload.uid,
        "priority": workload.priority,
        "priority_class_name": priority_class_of(workload.priority),
        "submitted_by": workload.user_name,
        "cluster_id": workload.cluster_id,
        "project_name": listed.workspace,
        "project_id": str(workload.workspace_id),
        "department_name": listed.department,
        "department_id": str(listed.department_id),
        "namespace": workload.namespace,
    }


def _time_fields(listed: WorkloadRecord, now: int) -> dict[str, Any]:
    workload = listed.workload
    updated = max(workload.phase_at, workload.deleted_at or 0, *(each.at for each in listed.conditions[-1:]))
    return {
        "created_at": format_rfc3339(workload.submitted_at),
        "phase_updated_at": format_rfc3339(workload.phase_at),
        "k8s_phase_updated_at": format_rfc3339(workload.phase_at),
        "updated_at": format_rfc3339(updated),
        "completed_at": optional_rfc3339(workload.ended_at),
        "deleted_at": optional_rfc3339(workload.deleted_at),
        "guaranteed_runtime_ends_at": optional_rfc3339(workload.guaranteed_until),
        "total_pending_time_seconds": total_pending_ms(workload, now) // 1000,
        "total_running_time_seconds": total_running_ms(workload, now) // 1000,
    }


def _to_requested(spec: Spec, amounts: Resources) -> RequestedResources:
    memory = (
        spec.shown_memory if amounts == spec.resources and spec.shown_memory else format_bytes(amounts.memory_bytes)
    )
    return RequestedResources(
        gpu=NumericRequest(amounts.gpu_milli / MILLI, amounts.gpu_milli / MILLI),
        cpu=NumericRequest(amounts.cpu_milli / MILLI, amounts.cpu_milli / MILLI),
        cpu_memory=QuantityRequest(memory, memory),
        gpu_request_type="portion" if amounts.gpu_milli else None,
    )


def _to_connections(spec: Spec) -> list[ExternalConnection]:
    service = spec.service
    return [ExternalConnection("service", "custom", service.service_type, service.target_port)] if service else []
