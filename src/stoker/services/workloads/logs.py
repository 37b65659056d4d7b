"""Logs of pods: stored lines first, then the newest lines from the engine.

Lines are streamed in batches, so that a log of any length takes the same memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from operator import attrgetter

from msgspec import Struct

from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.engine_access import EngineAccess
from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.workload.model import Workload
from stoker.domain.workload.pod import Pod
from stoker.services.access import get_visible
from stoker.services.context import Context
from stoker.services.outage import DatabaseOutage
from stoker.services.workloads.log_reader import LogQuery, LogReader
from stoker.store.db.base import Transaction
from stoker.store.telemetry.log_chunks import TimestampedLine
from stoker.store.workloads import pods

LINES_BATCH_SIZE = 500
POLL_SECONDS = 0.2
REAUTHORISE_MS = 5_000
"""How long a stream may continue after its reader has lost the permission."""
MAX_SEARCH_BYTES = 32 * 1024**2
"""The maximum text of one search result."""


class LogSearchQuery(Struct, frozen=True, kw_only=True):
    """A search over all pods of a workload; `attempt` None is every attempt."""

    text: str = ""
    since: int = 0
    attempt: int | None = None
    limit: int = 1000


class LogMatch(Struct, frozen=True):
    pod: str
    attempt: int
    at: int
    text: str


class LogStream(Struct, frozen=True):
    """The log of one pod, oldest line first, in batches."""

    workload: Workload
    pod: Pod
    lines: AsyncIterator[list[TimestampedLine]]


class LogService:
    def __init__(self, context: Context, engine_access: EngineAccess) -> None:
        self._context = context
        self._engine_access = engine_access

    async def read(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> LogStream:
        """The last lines of a pod; they are kept after the pod has ended."""
        workload, pod, reader = await self._open_reader(actor, ref, pod_ref, query)
        count = await reader.seek_to_tail(self._context.clock.now())
        return LogStream(workload, pod, _read_last(reader, count))

    async def follow(
        self, actor: Actor, ref: str, pod_ref: str, query: LogQuery, renew: Callable[[], Awaitable[Actor]]
    ) -> LogStream:
        """The last lines, then new ones until the pod ends or the reader loses the permission.

        Yields an empty batch as a keep-alive. A pod that cannot be followed raises before the stream begins.
        """
        workload, pod, reader = await self._open_reader(actor, ref, pod_ref, query)
        await reader.seek_to_tail(self._context.clock.now())
        return LogStream(workload, pod, self._follow_lines(reader, pod.uid, ref, renew))

    async def search(self, actor: Actor, ref: str, query: LogSearchQuery) -> list[LogMatch]:
        """The last lines of all pods that contain a text, ordered by time."""

        def list_pods(transaction: Transaction) -> list[Pod]:
            workload = get_visible(transaction, actor, ref).workload
            return pods.of_workload(transaction, workload.uid)

        matches: list[LogMatch] = []
        size = 0
        for pod in await self._context.store.read(list_pods):
            if query.attempt in {None, pod.attempt}:
                pod_query = LogQuery(tail=query.limit, since=query.since, text=query.text)
                stream = await self.read(actor, ref, pod.uid, pod_query)
                async for lines in stream.lines:
                    matches += [LogMatch(pod.name, pod.attempt, at, text) for at, text in lines]
                    size += sum(len(text) for _, text in lines)
                    if size > MAX_SEARCH_BYTES:
                        raise bad_request(
                            "limit", f"the lines found have more than {MAX_SEARCH_BYTES} characters together."
                        )
            matches = sorted(matches, key=attrgetter("at"))[-query.limit :]
            size = sum(len(match.text) for match in matches)
        return matches

    async def _open_reader(
        self, actor: Actor, ref: str, pod_ref: str, query: LogQuery
    ) -> tuple[Workload, Pod, LogReader]:
        store = self._context.store
        workload, pod = await store.read_inline(lambda tx: _find_pod(tx, actor, ref, pod_ref, query.attempt))
        return workload, pod, LogReader(store, self._engine_access, workload.cluster_id, pod.uid, query)

    async def _follow_lines(
        self, reader: LogReader, uid: str, ref: str, renew: Callable[[], Awaitable[Actor]]
    ) -> AsyncIterator[list[TimestampedLine]]:
        clock, store = self._context.clock, self._context.store
        outage = DatabaseOutage(clock, self._context.settings.stream_patience_seconds)
        checked_at = clock.now()
        while True:
            try:
                if not 0 <= (now := clock.now()) - checked_at < REAUTHORISE_MS:  # the clock may be set back
                    actor = await renew()
                    await store.read_inline(lambda tx, who=actor: get_visible(tx, who, ref))
                    checked_at = now
                pod = await store.read_inline(lambda tx: pods.get(tx, uid))
                lines = await reader.read_next()
            except StokerError as error:
                await outage.wait(error)
                yield []
                continue
            outage.reset()
            for batch in _batches(lines or []):
                yield batch
            if not lines:
                yield []
            if lines is None:
                if pod is None or pod.phase.is_finished:
                    return
                await asyncio.sleep(POLL_SECONDS)


async def _read_last(reader: LogReader, count: int) -> AsyncIterator[list[TimestampedLine]]:
    while count > 0 and (lines := await reader.read_next()) is not None:
        for batch in _batches(lines[:count]):
            yield batch
        count -= len(lines)


def _batches(lines: list[TimestampedLine]) -> Iterator[list[TimestampedLine]]:
    for begin in range(0, len(lines), LINES_BATCH_SIZE):
        yield lines[begin : begin + LINES_BATCH_SIZE]


def _find_pod(
    transaction: Transaction, actor: Actor, ref: str, pod_ref: str, attempt: int | None
) -> tuple[Workload, Pod]:
    """The newest pod of this name in the workload, or that of one attempt."""
    workload = get_visible(transaction, actor, ref).workload
    candidates = pods.find_by_name(transaction, workload.uid, pod_ref)
    if not candidates:
        raise not_found("pod", pod_ref)
    for pod in candidates:
        if attempt in {None, pod.attempt}:
            return workload, pod
    attempts = ", ".join(map(str, sorted({pod.attempt for pod in candidates})))
    raise StokerError(ErrorCode.NOT_FOUND, f'Pod "{pod_ref}" was not in attempt {attempt}. Its attempts: {attempts}.')
