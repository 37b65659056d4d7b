"""The operations inside a workload: logs, containers, service."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import SAFE, encode
from stoker.api.params import Params
from stoker.api.safe.shapes import ServicePort, ServiceView
from stoker.api.safe.workloads import WorkloadPath
from stoker.api.streams import EVENT_STREAM, KEEP_ALIVE, Stream
from stoker.domain.clock import rfc3339
from stoker.domain.errors import StokerError, bad_request
from stoker.domain.permissions import Action
from stoker.services.log_reader import Line, LogQuery

RECHECK_SECONDS = 5.0
QUIET_SECONDS = 10.0


class PodPath(Params, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(min_length=1, max_length=100, description="Workload ID.")]
    pod_id: Annotated[str, Meta(min_length=1, max_length=100, description="Pod ID.")]


class LogParams(PodPath, frozen=True, kw_only=True, rename="camel"):
    tail_lines: Annotated[int, Meta(ge=1, le=100_000, description="The last lines.")] = 1000
    container: Annotated[str, Meta(max_length=100)] = ""
    since_seconds: Annotated[int, Meta(ge=1, le=315_360_000, description="Of the last so many seconds.")] | None = None
    follow: Annotated[bool, Meta(description="Go on with what comes, as server-sent events.")] = False
    grep: Annotated[str, Meta(max_length=1000, description="Only lines that hold this, in any case.")] = ""
    timestamps: Annotated[bool, Meta(description="Each line begins with its time.")] = False
    attempt: (
        Annotated[int, Meta(ge=1, le=1_000_000, description="Of this dispatch; the newest when left out.")] | None
    ) = None


class LogAnswer(Struct, frozen=True, rename="camel"):
    workload_id: str
    pod_id: str
    namespace: str
    logs: list[str]


class ContainerView(Struct, frozen=True):
    name: str


class ContainersAnswer(Struct, frozen=True):
    containers: list[ContainerView]
    shells: list[str]


@endpoint(
    "GET",
    "/api/custom/workloads/{name}/pods/{podId}/logs",
    family=SAFE,
    action=Action.WORKLOAD_READ,
    params=LogParams,
    result=LogAnswer,
    also=(EVENT_STREAM,),
)
async def read_logs(call: Call[LogParams]) -> Stream:
    """What a pod printed; kept after it has ended. With `follow` each line is one event."""
    asked = call.params
    if asked.container:
        there = await call.services.inside.container_names(call.actor, asked.name, asked.pod_id)
        if asked.container not in there:
            raise bad_request("container", f'there is no "{asked.container}". Use {", ".join(there)}.')
    since = 0 if asked.since_seconds is None else call.services.clock.now() - asked.since_seconds * 1000
    query = LogQuery(tail=asked.tail_lines, since=since, text=asked.grep, attempt=asked.attempt)
    if asked.follow:
        found = await call.services.logs.follow(call.actor, asked.name, asked.pod_id, query)
        return Stream(_events(found.lines, asked.timestamps, lambda: _recheck(call)))
    found = await call.services.logs.read(call.actor, asked.name, asked.pod_id, query)
    answer = LogAnswer(found.workload.slug, found.pod.name, found.workload.namespace, [])
    return Stream(_answer(answer, found.lines, asked.timestamps), "application/json")


@endpoint(
    "GET",
    "/api/custom/workloads/{name}/pods/{podId}/containers",
    family=SAFE,
    action=Action.WORKLOAD_READ,
    params=PodPath,
)
async def read_containers(call: Call[PodPath]) -> ContainersAnswer:
    """The containers of a pod, and the shells that exist in it."""
    found = await call.services.inside.containers(call.actor, call.params.name, call.params.pod_id)
    return ContainersAnswer([ContainerView(name) for name in found.names], found.shells)


@endpoint("GET", "/api/custom/workloads/{name}/service", family=SAFE, action=Action.WORKLOAD_READ, params=WorkloadPath)
async def read_service(call: Call[WorkloadPath]) -> ServiceView:
    """Where the workload's service answers."""
    found = await call.services.inside.service(call.actor, call.params.name)
    port = ServicePort("http", found.port or found.service.port, found.service.target_port, found.service.protocol)
    return ServiceView(found.workload.slug, found.host, [port])


async def _recheck(call: Call[LogParams]) -> None:
    """The reader of a stream may still read it."""
    await call.services.workloads.read(await call.renewed(), call.params.name)


async def _answer(answer: LogAnswer, batches: AsyncIterator[list[Line]], timestamps: bool) -> AsyncIterator[bytes]:
    """The answer with its lines, which are its last field."""
    piece = encode(answer).removesuffix(b"]}")
    async for lines in batches:
        yield piece + encode([_line(at, text, timestamps) for at, text in lines])[1:-1]
        piece = b","
    yield (b"" if piece == b"," else piece) + b"]}"


async def _events(
    batches: AsyncIterator[list[Line]], timestamps: bool, recheck: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    checked = told = time.monotonic()
    try:
        async for lines in batches:
            if time.monotonic() - checked > RECHECK_SECONDS:
                await recheck()
                checked = time.monotonic()
            if lines or time.monotonic() - told > QUIET_SECONDS:
                told = time.monotonic()
                yield b"".join(_event(_line(at, text, timestamps)) for at, text in lines) or KEEP_ALIVE
    except StokerError as error:
        yield b"event: error\ndata: %b\n\n" % encode(SAFE.failure(error, 500, ""))
        return
    yield b"event: end\ndata: \n\n"


def _event(line: str) -> bytes:
    """One event. A carriage return would end a line of it, so what comes after one is a line of its own."""
    parts = line.rstrip("\r").split("\r")
    return b"".join(b"data: %b\n" % part.encode("utf-8", "replace") for part in parts) + b"\n"


def _line(at: int, text: str, timestamps: bool) -> str:
    return f"{rfc3339(at)} {text}" if timestamps else text
