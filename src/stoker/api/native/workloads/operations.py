"""What the native family adds for workloads: suspend, resume, events as they happen, a search over what was printed."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE, STATUS, encode
from stoker.api.native.shapes import Time
from stoker.api.params import Params
from stoker.api.streams import EVENT_STREAM, KEEP_ALIVE, Stream
from stoker.api.times import optional_instant
from stoker.domain.clock import rfc3339
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import Action
from stoker.services.events import Event
from stoker.services.logs import SearchQuery

Ref = Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID or uid.")]


class WorkloadPath(Params, frozen=True, kw_only=True):
    name: Ref


class EventParams(Params, frozen=True, kw_only=True):
    workload: Annotated[str, Meta(max_length=100, description="Only of this workload.")] = ""
    after: (
        Annotated[int, Meta(ge=0, le=2**62, description="Begin after this event; from now on when left out.")] | None
    ) = None


class SearchParams(Params, frozen=True, kw_only=True):
    name: Ref
    text: Annotated[str, Meta(max_length=1000, description="Part of the line, in any case.")] = ""
    since: Annotated[str, Meta(max_length=40, description="RFC 3339.")] | None = None
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class EventView(Struct, frozen=True, rename="camel"):
    seq: int
    at: Time
    workload_id: str
    workspace: str
    kind: str
    phase: str
    reason: str
    message: str


class LogLineView(Struct, frozen=True):
    pod: str
    attempt: int
    at: Time
    line: str


class LinesAnswer(Struct, frozen=True):
    """In the order of time; the last `limit` of them."""

    items: list[LogLineView]


@endpoint(
    "POST",
    "/api/stoker/v1/workloads/{name}/suspend",
    family=NATIVE,
    action=Action.WORKLOAD_STOP,
    params=WorkloadPath,
    status=204,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def suspend_workload(call: Call[WorkloadPath]) -> None:
    """Stop a workload, to be resumed later. What has ended by itself is not suspended."""
    await call.services.workloads.suspend(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/stoker/v1/workloads/{name}/resume",
    family=NATIVE,
    action=Action.WORKLOAD_RESUME,
    params=WorkloadPath,
    status=204,
    errors=(ErrorCode.STATE_FORBIDS,),
)
async def resume_workload(call: Call[WorkloadPath]) -> None:
    """Queue a stopped workload again, as a new attempt."""
    await call.services.workloads.resume(call.actor, call.params.name)


@endpoint(
    "GET",
    "/api/stoker/v1/events",
    family=NATIVE,
    action=Action.WORKLOAD_LIST,
    params=EventParams,
    media_type=EVENT_STREAM,
    errors=(ErrorCode.NOT_FOUND,),
)
async def follow_events(call: Call[EventParams]) -> Stream:
    """Every change of a workload the caller can see, as server-sent events. `Last-Event-ID` goes on after it."""
    sent = call.request.headers.get("last-event-id", "")
    after = int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 19 else call.params.after
    events = call.services.events.follow(call.actor, call.params.workload, after, call.renewed)
    first = await anext(events)
    return Stream(_stream(first, events, call.origin.trace_id))


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/logs",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=SearchParams,
)
async def search_logs(call: Call[SearchParams]) -> LinesAnswer:
    """Lines of all pods of a workload that hold a text."""
    asked = call.params
    query = SearchQuery(
        text=asked.text, since=optional_instant(asked.since, "since") or 0, attempt=asked.attempt, limit=asked.limit
    )
    found = await call.services.logs.search(call.actor, asked.name, query)
    return LinesAnswer([LogLineView(each.pod, each.attempt, rfc3339(each.at), each.text) for each in found])


async def _stream(first: Event | None, events: AsyncIterator[Event | None], trace_id: str) -> AsyncIterator[bytes]:
    yield _shown(first)
    try:
        async for event in events:
            yield _shown(event)
    except StokerError as error:
        yield b"event: error\ndata: %b\n\n" % encode(NATIVE.failure(error, STATUS[error.code], trace_id))


def _shown(event: Event | None) -> bytes:
    if event is None:
        return KEEP_ALIVE
    change = event.change
    view = EventView(
        change.seq,
        rfc3339(change.at),
        change.slug,
        event.workspace,
        change.kind,
        change.phase,
        change.reason,
        change.message,
    )
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (change.seq, change.kind.encode(), encode(view))
