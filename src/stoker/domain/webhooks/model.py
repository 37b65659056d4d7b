"""Webhooks: subscriptions, event payloads and delivery state.

The ID and payload of an event derive from its transition alone, so every delivery of it is identical.
"""

import hashlib
from enum import StrEnum

import msgspec
from msgspec import Struct

from stoker.domain.clock import format_rfc3339
from stoker.domain.workload.idle import REASON_IDLE, REASON_IDLE_WARNING
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import ConditionType, Phase
from stoker.domain.workload.phase_change import Transition

MAX_WEBHOOKS = 50
"""Maximum per workspace, and of webhooks without a workspace: every event adds a row for each of them."""


class WebhookEventType(StrEnum):
    WORKLOAD_COMPLETED = "workload.completed"
    WORKLOAD_FAILED = "workload.failed"
    WORKLOAD_STOPPED = "workload.stopped"
    WORKLOAD_PREEMPTED = "workload.preempted"
    WORKLOAD_IDLE = "workload.idle"
    NODE_FAULTY = "node.faulty"
    NODE_RECOVERED = "node.recovered"
    TEST = "webhook.test"

    @property
    def is_node_event(self) -> bool:
        return self in {WebhookEventType.NODE_FAULTY, WebhookEventType.NODE_RECOVERED}


class Webhook(Struct, frozen=True):
    """A subscription. Without a workspace it receives events of all workspaces and of nodes; without `events`, all
    types."""

    id: str
    url: str
    description: str
    workspace_id: int | None
    workspace: str | None
    events: tuple[WebhookEventType, ...]
    enabled: bool
    disabled_because: str
    created_at: int
    updated_at: int

    def subscribes_to(self, event: WebhookEventType, workspace_id: int | None) -> bool:
        """Whether it receives an event; only webhooks without a workspace receive events without one."""
        in_scope = self.workspace_id is None or self.workspace_id == workspace_id
        return self.enabled and in_scope and (not self.events or event in self.events)


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given-up"


class WebhookDelivery(Struct, frozen=True):
    """The delivery of one event to one webhook."""

    number: int
    webhook_id: str
    event_id: str
    event: WebhookEventType
    at: int
    state: DeliveryState
    tries: int
    next_at: int | None
    tried_at: int | None
    status: int | None
    """HTTP status of the last response, if there was one."""
    error: str


class WebhookEvent(Struct, frozen=True):
    """An event with its encoded payload."""

    id: str
    type: WebhookEventType
    at: int
    workspace_id: int | None
    payload: bytes


class WorkloadEventData(Struct, frozen=True, rename="camel"):
    """The payload of a workload event."""

    id: str
    uid: str
    name: str
    kind: str
    workspace: str
    user: str
    cluster: str
    phase: Phase
    reason: str
    message: str
    exit_code: int | None
    attempt: int
    gpus: float
    submitted_at: str
    started_at: str | None
    ended_at: str | None


class NodeEventData(Struct, frozen=True, rename="camel"):
    """The payload of a node event."""

    name: str
    cluster: str
    message: str


class PingEventData(Struct, frozen=True, rename="camel"):
    webhook: str
    message: str = "Somebody asked for a test."


class WebhookPayload(Struct, frozen=True):
    type: WebhookEventType
    timestamp: str
    data: WorkloadEventData | NodeEventData | PingEventData


_EVENT_TYPE_BY_FINAL_PHASE = {
    Phase.COMPLETED: WebhookEventType.WORKLOAD_COMPLETED,
    Phase.FAILED: WebhookEventType.WORKLOAD_FAILED,
    Phase.STOPPED: WebhookEventType.WORKLOAD_STOPPED,
}


def event_type_of(before: Workload, transition: Transition) -> WebhookEventType | None:
    """The event type of a transition; None if webhooks are not notified of it."""
    after = transition.workload
    if after.phase.is_finished:
        return None if before.phase.is_finished else _EVENT_TYPE_BY_FINAL_PHASE[after.phase]
    if any(condition.type is ConditionType.PREEMPTED for condition in transition.conditions):
        return WebhookEventType.WORKLOAD_PREEMPTED
    if any(condition.reason in {REASON_IDLE, REASON_IDLE_WARNING} for condition in transition.conditions):
        return WebhookEventType.WORKLOAD_IDLE
    return None


def build_workload_event(
    kind: WebhookEventType, transition: Transition, *, workspace: str, cluster: str, exit_code: int | None
) -> WebhookEvent:
    workload, last = transition.workload, transition.conditions[-1]
    data = WorkloadEventData(
        id=workload.slug,
        uid=workload.uid,
        name=workload.name,
        kind=workload.kind,
        workspace=workspace,
        user=workload.user_name,
        cluster=cluster,
        phase=workload.phase,
        reason=last.reason,
        message=last.message,
        exit_code=exit_code,
        attempt=workload.attempt,
        gpus=workload.spec.total_resources.gpu_milli / 1000,
        submitted_at=format_rfc3339(workload.submitted_at),
        started_at=None if workload.started_at is None else format_rfc3339(workload.started_at),
        ended_at=None if workload.ended_at is None else format_rfc3339(workload.ended_at),
    )
    return build_event(
        derive_event_id(workload.uid, workload.version, last.at), kind, last.at, workload.workspace_id, data
    )


def build_node_event(kind: WebhookEventType, cluster_id: str, data: NodeEventData, at: int) -> WebhookEvent:
    return build_event(derive_event_id(cluster_id, data.name, kind, at), kind, at, None, data)


def build_event(
    event: str,
    kind: WebhookEventType,
    at: int,
    workspace_id: int | None,
    data: WorkloadEventData | NodeEventData | PingEventData,
) -> WebhookEvent:
    return WebhookEvent(
        event, kind, at, workspace_id, msgspec.json.encode(WebhookPayload(kind, format_rfc3339(at), data))
    )


def derive_event_id(*facts: object) -> str:
    """An ID derived from the facts. It contains no full stop, which separates it from the rest of the signed text."""
    return "msg_" + hashlib.sha256("/".join(map(str, facts)).encode()).hexdigest()[:32]
