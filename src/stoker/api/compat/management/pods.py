"""Logs and containers of pods, and the service of a workload."""

import time
from collections.abc import AsyncIterator
from typing import Annotated

from msgspec import Meta

from stoker.api.compat.management.workloads import ManagementWorkloadPath
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.error_bodies import ManagementError
from stoker.api.http.families import MANAGEMENT, encode_json
from stoker.api.http.params import Params
from stoker.api.http.sse import (
    END_EVENT,
    SSE_KEEP_ALIVE,
    SSE_MEDIA_TYPE,
    EventSchema,
    encode_error,
    encode_line,
)
from stoker.api.http.streaming import Stream
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import format_rfc3339
from stoker.domain.errors import StokerError, bad_request
from stoker.services.workloads.log_reader import LogQuery, TimestampedLine
from stoker.wire.management import ContainerView, PodContainersView, PodLogs, ServicePort, ServiceView

KEEP_ALIVE_SECONDS = 10.0
LOG_EVENTS = (
    EventSchema("", "One line of the log.", str),
    EventSchema("end", "The pod has ended and its log is complete; the data are empty.", str),
    EventSchema("error", "The stream cannot continue.", ManagementError),
)


class PodPath(Params, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID.")]
    pod_id: Annotated[str, Meta(min_length=1, max_length=100, description="Pod ID.")]


class LogParams(PodPath, frozen=True, kw_only=True, rename="camel"):
    tail_lines: Annotated[int, Meta(ge=1, le=100_000, description="The number of lines from the end.")] = 1000
    container: Annotated[str, Meta(max_length=100, description="Container name.")] = ""
    since_seconds: Annotated[int, Meta(ge=1, le=315_360_000, description="Only lines of the last seconds.")] | None = (
        None
    )
    follow: Annotated[bool, Meta(description="Continue with new lines, as server-sent events.")] = False
    grep: Annotated[str, Meta(max_length=1000, description="Only lines that contain this text, ignoring case.")] = ""
    timestamps: Annotated[bool, Meta(description="Prefix each line with its time in RFC 3339.")] = False
    attempt: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="The dispatch, counted from 1; the last one if left out.")]
        | None
    ) = None


@endpoint(
    "GET",
    "/api/custom/workloads/{name}/pods/{podId}/logs",
    family=MANAGEMENT,
    action=Action.WORKLOAD_READ,
    params=LogParams,
    result=PodLogs,
    alt_media_types=(SSE_MEDIA_TYPE,),
    events=LOG_EVENTS,
    response_headers=("Cache-Control",),
)
async def read_logs(call: Call[LogParams]) -> Stream:
    """The log of a pod, which is kept after the pod has ended. With `follow`, each line is a server-sent event."""
    params = call.params
    if params.container:
        names = await call.services.pod_access.list_container_names(call.actor, params.name, params.pod_id)
        if params.container not in names:
            raise bad_request("container", f'there is no "{params.container}". Use {", ".join(names)}.')
    since = 0 if params.since_seconds is None else call.services.clock.now() - params.since_seconds * 1000
    query = LogQuery(tail=params.tail_lines, since=since, text=params.grep, attempt=params.attempt)
    if params.follow:
        found = await call.services.logs.follow(call.actor, params.name, params.pod_id, query, call.reauthenticate)
        return Stream(_event_stream(found.lines, params.timestamps, call.origin.trace_id))
    found = await call.services.logs.read(call.actor, params.name, params.pod_id, query)
    answer = PodLogs(found.workload.slug, found.pod.name, found.workload.namespace, ())
    return Stream(_json_answer(answer, found.lines, params.timestamps), "application/json")


@endpoint(
    "GET",
    "/api/custom/workloads/{name}/pods/{podId}/containers",
    family=MANAGEMENT,
    action=Action.WORKLOAD_READ,
    params=PodPath,
)
async def read_containers(call: Call[PodPath]) -> PodContainersView:
    """The containers of a pod, and the shells that exist in it."""
    found = await call.services.pod_access.list_containers(call.actor, call.params.name, call.params.pod_id)
    return PodContainersView(tuple(ContainerView(name) for name in found.names), tuple(found.shells))


@endpoint(
    "GET",
    "/api/custom/workloads/{name}/service",
    family=MANAGEMENT,
    action=Action.WORKLOAD_READ,
    params=ManagementWorkloadPath,
)
async def read_service(call: Call[ManagementWorkloadPath]) -> ServiceView:
    """The address of the workload's service."""
    found = await call.services.pod_access.get_service_address(call.actor, call.params.name)
    port = ServicePort("http", found.port or found.service.port, found.service.target_port, found.service.protocol)
    return ServiceView(found.workload.slug, found.host, (port,))


async def _json_answer(
    answer: PodLogs, batches: AsyncIterator[list[TimestampedLine]], timestamps: bool
) -> AsyncIterator[bytes]:
    """The answer with its lines, which are its last field."""
    head = encode_json(answer).removesuffix(b"]}")
    async for lines in batches:
        yield head + encode_json([_format_line(at, text, timestamps) for at, text in lines])[1:-1]
        head = b","
    yield (b"" if head == b"," else head) + b"]}"


async def _event_stream(
    batches: AsyncIterator[list[TimestampedLine]], timestamps: bool, trace_id: str
) -> AsyncIterator[bytes]:
    last_sent = time.monotonic()
    try:
        async for lines in batches:
            if lines or time.monotonic() - last_sent > KEEP_ALIVE_SECONDS:
                last_sent = time.monotonic()
                yield b"".join(encode_line(_format_line(at, text, timestamps)) for at, text in lines) or SSE_KEEP_ALIVE
    except StokerError as error:
        yield encode_error(MANAGEMENT, error, trace_id)
        return
    yield END_EVENT


def _format_line(at: int, text: str, timestamps: bool) -> str:
    return f"{format_rfc3339(at)} {text}" if timestamps else text
