"""Webhooks: who is told of what happens, in which words, and what became of telling them.

An event is a fact of the change that it tells about: its id and its words follow from that change alone, so however
often it is sent, it is the same event.
"""

import hashlib
from enum import StrEnum

import msgspec
from msgspec import Struct

from stoker.domain.clock import rfc3339
from stoker.domain.idleness import REPORTED, WARNED
from stoker.domain.lifecycle import Change
from stoker.domain.workload import ConditionType, Phase, Workload

MOST_WEBHOOKS = 50
"""Of one workspace, or of the whole installation: every event is written down for each of them."""
RETRY_SECONDS = (0, 5, 300, 1800, 7200, 18_000, 36_000, 50_400)
"""How long each try waits after the one before it."""
LONGEST_WAIT_SECONDS = 86_400


class EventType(StrEnum):
    WORKLOAD_COMPLETED = "workload.completed"
    WORKLOAD_FAILED = "workload.failed"
    WORKLOAD_STOPPED = "workload.stopped"
    WORKLOAD_PREEMPTED = "workload.preempted"
    WORKLOAD_IDLE = "workload.idle"
    NODE_FAULTY = "node.faulty"
    NODE_RECOVERED = "node.recovered"
    TEST = "webhook.test"

    @property
    def of_nodes(self) -> bool:
        return self in {EventType.NODE_FAULTY, EventType.NODE_RECOVERED}


class Webhook(Struct, frozen=True):
    """Where events go. Without a workspace it hears of all of them, and of nodes; without `events`, of everything."""

    id: str
    url: str
    description: str
    workspace_id: int | None
    workspace: str | None
    events: tuple[EventType, ...]
    enabled: bool
    disabled_because: str
    created_at: int
    updated_at: int

    def wants(self, event: EventType, workspace_id: int | None) -> bool:
        """Whether this is for it; an event that is of no workspace is only for whom all are."""
        heard = self.workspace_id is None or self.workspace_id == workspace_id
        return self.enabled and heard and (not self.events or event in self.events)


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given-up"


class Delivery(Struct, frozen=True):
    """One event on its way to one webhook."""

    number: int
    webhook_id: str
    event_id: str
    event: EventType
    at: int
    state: DeliveryState
    tries: int
    next_at: int | None
    tried_at: int | None
    status: int | None
    """What the receiver last answered, if it did."""
    error: str


class Told(Struct, frozen=True):
    """An event in the words that are sent."""

    id: str
    type: EventType
    at: int
    workspace_id: int | None
    payload: bytes


class WorkloadNews(Struct, frozen=True, rename="camel"):
    """What an event says of its workload."""

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


class NodeNews(Struct, frozen=True, rename="camel"):
    """What an event says of its node."""

    name: str
    cluster: str
    message: str


class TestNews(Struct, frozen=True, rename="camel"):
    webhook: str
    message: str = "Somebody asked for a test."


class Payload(Struct, frozen=True):
    type: EventType
    timestamp: str
    data: WorkloadNews | NodeNews | TestNews


_ENDS = {
    Phase.COMPLETED: EventType.WORKLOAD_COMPLETED,
    Phase.FAILED: EventType.WORKLOAD_FAILED,
    Phase.STOPPED: EventType.WORKLOAD_STOPPED,
}


def event_of(before: Workload, change: Change) -> EventType | None:
    """What a change of a workload is to others, if it is anything to them."""
    after = change.workload
    if after.phase.ended:
        return None if before.phase.ended else _ENDS[after.phase]
    if any(condition.type is ConditionType.PREEMPTED for condition in change.conditions):
        return EventType.WORKLOAD_PREEMPTED
    if any(condition.reason in {REPORTED, WARNED} for condition in change.conditions):
        return EventType.WORKLOAD_IDLE
    return None


def workload_event(kind: EventType, change: Change, *, workspace: str, cluster: str, exit_code: int | None) -> Told:
    workload, last = change.workload, change.conditions[-1]
    news = WorkloadNews(
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
        gpus=workload.spec.total.gpu_milli / 1000,
        submitted_at=rfc3339(workload.submitted_at),
        started_at=None if workload.started_at is None else rfc3339(workload.started_at),
        ended_at=None if workload.ended_at is None else rfc3339(workload.ended_at),
    )
    return told(event_id(workload.uid, workload.version, last.at), kind, last.at, workload.workspace_id, news)


def node_event(kind: EventType, cluster_id: str, news: NodeNews, at: int) -> Told:
    return told(event_id(cluster_id, news.name, kind, at), kind, at, None, news)


def told(
    event: str, kind: EventType, at: int, workspace_id: int | None, news: WorkloadNews | NodeNews | TestNews
) -> Told:
    return Told(event, kind, at, workspace_id, msgspec.json.encode(Payload(kind, rfc3339(at), news)))


def event_id(*facts: object) -> str:
    """The same for the same facts. It has no full stop, which parts it from what is signed with it."""
    return "msg_" + hashlib.sha256("/".join(map(str, facts)).encode()).hexdigest()[:32]


def wait_seconds(tries: int, jitter: float, asked_seconds: int = 0) -> float | None:
    """How long to wait after so many tries that failed; None when that was the last one.

    `jitter`, from 0 to 1, keeps many from coming back at once; the receiver may ask for longer, within reason.
    """
    if tries >= len(RETRY_SECONDS):
        return None
    own = RETRY_SECONDS[tries] * (1 + jitter / 10)
    return max(own, min(asked_seconds, LONGEST_WAIT_SECONDS))
