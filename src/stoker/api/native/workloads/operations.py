"""Endpoints that the native API adds for workloads: suspend, resume, rollback, events and log search."""

from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.error_bodies import NativeError
from stoker.api.http.families import NATIVE
from stoker.api.http.params import Params, parse_optional_instant
from stoker.api.http.sse import SSE_KEEP_ALIVE, SSE_MEDIA_TYPE, EventSchema, encode_error, encode_event
from stoker.api.http.streaming import Stream
from stoker.domain.access.permission_rules import Action
from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.workloads.events import StreamedEvent
from stoker.services.workloads.logs import LogSearchQuery
from stoker.wire.timestamps import to_timestamp
from stoker.wire.workloads import LogSearchHit, LogSearchResult, WorkingDirectoryView, WorkloadEvent

WorkloadRef = Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID or uid.")]


class WorkloadPath(Params, frozen=True, kw_only=True):
    name: WorkloadRef


class EventStreamParams(Params, frozen=True, kw_only=True):
    workload: Annotated[str, Meta(max_length=100, description="Only of this workload.")] = ""
    after: (
        Annotated[int, Meta(ge=0, le=2**62, description="Begin after this event; from now on when left out.")] | None
    ) = None


class LogSearchParams(Params, frozen=True, kw_only=True):
    name: WorkloadRef
    text: Annotated[str, Meta(max_length=1000, description="Part of the line, in any case.")] = ""
    since: Annotated[str, Meta(max_length=40, description="RFC 3339.")] | None = None
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class WorkingDirectoryParams(Params, frozen=True, kw_only=True):
    path: Annotated[str, Meta(min_length=1, max_length=4096, pattern="^/", description="Absolute.")]
    workspace: Annotated[str, Meta(max_length=63, description="The caller's default one when left out.")] = ""


WORKLOAD_EVENTS = (
    EventSchema("created", "A workload was created. The id of this and the next two events is `seq`.", WorkloadEvent),
    EventSchema("phase", "The phase of a workload changed.", WorkloadEvent),
    EventSchema("changed", "A workload changed, but not its phase.", WorkloadEvent),
    EventSchema("error", "The stream cannot continue.", NativeError),
)


@endpoint(
    "POST",
    "/api/stoker/v1/workloads/{name}/suspend",
    family=NATIVE,
    action=Action.WORKLOAD_STOP,
    params=WorkloadPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def suspend_workload(call: Call[WorkloadPath]) -> None:
    """Stop a workload so that it can be resumed. A workload that finished by itself cannot be suspended."""
    await call.services.workloads.suspend(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/stoker/v1/workloads/{name}/resume",
    family=NATIVE,
    action=Action.WORKLOAD_RESUME,
    params=WorkloadPath,
    status=204,
    errors=(ErrorCode.CONFLICT,),
)
async def resume_workload(call: Call[WorkloadPath]) -> None:
    """Queue a stopped workload again, as a new attempt."""
    await call.services.workloads.resume(call.actor, call.params.name)


@endpoint(
    "POST",
    "/api/stoker/v1/workloads/{name}/rollback",
    family=NATIVE,
    action=Action.WORKLOAD_UPDATE,
    params=WorkloadPath,
    status=204,
    errors=(ErrorCode.CONFLICT, ErrorCode.UNSCHEDULABLE),
)
async def roll_back_workload(call: Call[WorkloadPath]) -> None:
    """Create a new revision with the spec of the previous one."""
    await call.services.workload_updates.rollback(call.actor, call.params.name)


@endpoint(
    "GET",
    "/api/stoker/v1/working-directory",
    family=NATIVE,
    action=Action.WORKLOAD_CREATE,
    params=WorkingDirectoryParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def check_working_directory(call: Call[WorkingDirectoryParams]) -> WorkingDirectoryView:
    """Whether a workload could start in a directory of the machine it would run on."""
    params = call.params
    reason = await call.services.pod_access.working_directory_error(call.actor, params.workspace, params.path)
    return WorkingDirectoryView(params.path, not reason, reason)


@endpoint(
    "GET",
    "/api/stoker/v1/events",
    family=NATIVE,
    action=Action.WORKLOAD_LIST,
    params=EventStreamParams,
    media_type=SSE_MEDIA_TYPE,
    errors=(ErrorCode.NOT_FOUND,),
    events=WORKLOAD_EVENTS,
    response_headers=("Cache-Control",),
)
async def follow_events(call: Call[EventStreamParams]) -> Stream:
    """Events of the workloads that the caller can see, as server-sent events. `Last-Event-ID` resumes after it."""
    last_id = call.request.headers.get("last-event-id", "")
    after = int(last_id) if last_id.isascii() and last_id.isdigit() and len(last_id) < 19 else call.params.after
    events = call.services.events.follow(call.actor, call.params.workload, after, call.reauthenticate)
    first = await anext(events)
    return Stream(_event_stream(first, events, call.origin.trace_id))


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/logs",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=LogSearchParams,
)
async def search_logs(call: Call[LogSearchParams]) -> LogSearchResult:
    """Log lines of all pods of a workload that contain a text."""
    params = call.params
    query = LogSearchQuery(
        text=params.text,
        since=parse_optional_instant(params.since, "since") or 0,
        attempt=params.attempt,
        limit=params.limit,
    )
    hits = await call.services.logs.search(call.actor, params.name, query)
    return LogSearchResult(tuple(LogSearchHit(hit.pod, hit.attempt, to_timestamp(hit.at), hit.text) for hit in hits))


async def _event_stream(
    first: StreamedEvent | None, events: AsyncIterator[StreamedEvent | None], trace_id: str
) -> AsyncIterator[bytes]:
    yield _encode_event(first)
    try:
        async for event in events:
            yield _encode_event(event)
    except StokerError as error:
        yield encode_error(NATIVE, error, trace_id)


def _encode_event(event: StreamedEvent | None) -> bytes:
    if event is None:
        return SSE_KEEP_ALIVE
    change = event.event
    view = WorkloadEvent(
        change.seq,
        to_timestamp(change.at),
        change.slug,
        event.workspace,
        change.kind,
        change.phase,
        change.reason,
        change.message,
    )
    return encode_event(change.kind, view, change.seq)
