"""Events and phase history of a workload, derived from its conditions."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import RUNAI
from stoker.api.http.params import Params
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Condition, ConditionType
from stoker.services.workloads.queries import WorkloadTimeline

T = TypeVar("T")
WARNING_CONDITIONS = frozenset(
    {ConditionType.FAILED, ConditionType.FAILOVER, ConditionType.PREEMPTED, ConditionType.TIMED_OUT},
)
EVENT_SOURCE = "stoker"


class HistoryParams(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(min_length=1, max_length=100)]
    offset: Annotated[int, Meta(ge=0, le=10_000_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=500)] = 50
    sort_order: Literal["desc", "asc"] = "desc"


class InvolvedObject(Struct, frozen=True):
    uid: str
    kind: str
    name: str
    namespace: str


class RunaiEvent(Struct, frozen=True, kw_only=True, rename="camel"):
    created_at: str
    id: str
    type: str
    cluster_id: str
    message: str
    reason: str
    source: str
    involved_object: InvolvedObject


class EventsAnswer(Struct, frozen=True, kw_only=True):
    """`next` is the offset of the following page, null on the last."""

    next: int | None
    events: list[RunaiEvent]


class RecordMeta(Struct, frozen=True, rename="camel"):
    creation_timestamp: str
    type: Literal["Event", "PhaseUpdate"]


class PhaseUpdate(Struct, frozen=True, rename="camel"):
    phase: str
    phase_message: str


class RecordSpec(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    event: RunaiEvent | None = None
    phase_update: PhaseUpdate | None = None


class HistoryRecord(Struct, frozen=True):
    meta: RecordMeta
    spec: RecordSpec


class HistoryAnswer(Struct, frozen=True, kw_only=True):
    next: int | None
    records: list[HistoryRecord]


@endpoint(
    "GET",
    "/api/v1/workloads/{workloadId}/events",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=HistoryParams,
)
async def list_events(call: Call[HistoryParams]) -> EventsAnswer:
    """The events of a workload, newest first."""
    life = await call.services.workload_queries.read_timeline(call.actor, call.params.workload_id)
    events, after = _paginate(call.params, _to_events(life))
    return EventsAnswer(next=after, events=events)


@endpoint(
    "GET",
    "/api/v1/workloads/{workloadId}/history",
    family=RUNAI,
    action=Action.WORKLOAD_READ,
    params=HistoryParams,
)
async def list_history(call: Call[HistoryParams]) -> HistoryAnswer:
    """The events and phases of a workload, newest first."""
    life = await call.services.workload_queries.read_timeline(call.actor, call.params.workload_id)
    dated = [
        (condition.at, 0, HistoryRecord(RecordMeta(event.created_at, "Event"), RecordSpec(event=event)))
        for condition, event in zip(life.conditions, _to_events(life), strict=True)
    ]
    dated += [
        (
            passed.from_at,
            1,
            HistoryRecord(
                RecordMeta(format_rfc3339(passed.from_at), "PhaseUpdate"),
                RecordSpec(
                    phase_update=PhaseUpdate(passed.phase.displayed, _message_at(life.conditions, passed.from_at))
                ),
            ),
        )
        for passed in life.phases
    ]
    ordered = [record for _, _, record in sorted(dated, key=lambda each: each[:2])]
    records, after = _paginate(call.params, ordered)
    return HistoryAnswer(next=after, records=records)


def _to_events(life: WorkloadTimeline) -> list[RunaiEvent]:
    """The events, oldest first, each with a stable id."""
    return [_to_event(life.workload, condition, number) for number, condition in enumerate(life.conditions)]


def _to_event(workload: Workload, condition: Condition, number: int) -> RunaiEvent:
    return RunaiEvent(
        created_at=format_rfc3339(condition.at),
        id=f"{workload.uid}-{number}",
        type="Warning" if condition.type in WARNING_CONDITIONS else "Normal",
        cluster_id=workload.cluster_id,
        message=condition.message,
        reason=condition.reason,
        source=EVENT_SOURCE,
        involved_object=InvolvedObject(workload.uid, workload.kind, workload.slug, workload.namespace),
    )


def _message_at(conditions: Sequence[Condition], at: int) -> str:
    """The message of a workload at the change to a phase."""
    return next((condition.message for condition in reversed(conditions) if condition.at == at), "")


def _paginate(asked: HistoryParams, oldest_first: Sequence[T]) -> tuple[list[T], int | None]:
    ordered = list(oldest_first) if asked.sort_order == "asc" else list(reversed(oldest_first))
    end = asked.offset + asked.limit
    return ordered[asked.offset : end], end if end < len(ordered) else None
