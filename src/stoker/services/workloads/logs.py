"""What pods printed: kept lines from the store, the newest ones from the pod itself. Lines are given as they are read,
some at a time, so an answer of any length costs the same memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from operator import attrgetter

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError, bad_request, not_found
from stoker.domain.permissions import Actor
from stoker.domain.reach import Reach
from stoker.domain.workload import Pod, Workload
from stoker.services.context import Context
from stoker.services.log_reader import LogQuery, LogReader
from stoker.services.visible import visible
from stoker.store import pods
from stoker.store.base import Transaction
from stoker.store.log_chunks import Line

AT_ONCE = 500
FOLLOW_SECONDS = 0.2
FOUND_BYTES = 32 * 1024**2
"""The most text that one search gives."""


class SearchQuery(Struct, frozen=True, kw_only=True):
    """Over all pods of a workload; `attempt` of None is every attempt."""

    text: str = ""
    since: int = 0
    attempt: int | None = None
    limit: int = 1000


class Hit(Struct, frozen=True):
    pod: str
    attempt: int
    at: int
    text: str


class Printed(Struct, frozen=True):
    """What one pod printed, oldest first and as it is read."""

    workload: Workload
    pod: Pod
    lines: AsyncIterator[list[Line]]


class Logs:
    def __init__(self, context: Context, reach: Reach) -> None:
        self._context = context
        self._reach = reach

    async def read(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> Printed:
        """The last lines of a pod. They stay when the pod has gone."""
        workload, pod, reader = await self._reader(actor, ref, pod_ref, query)
        count = await reader.begin(self._context.clock.now())
        return Printed(workload, pod, _last(reader, count))

    async def follow(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> Printed:
        """The last lines, and then all new ones until the pod has ended; nothing now and then while it prints nothing.
        What cannot be followed is told at once."""
        workload, pod, reader = await self._reader(actor, ref, pod_ref, query)
        await reader.begin(self._context.clock.now())
        return Printed(workload, pod, self._on(reader, pod.uid))

    async def search(self, actor: Actor, ref: str, query: SearchQuery) -> list[Hit]:
        """The last lines, over all pods and in the order of time, that hold a text."""

        def named(transaction: Transaction) -> list[Pod]:
            workload = visible(transaction, actor, ref).workload
            return pods.of_workload(transaction, workload.uid)

        hits: list[Hit] = []
        size = 0
        for pod in await self._context.store.read(named):
            if query.attempt in {None, pod.attempt}:
                asked = LogQuery(tail=query.limit, since=query.since, text=query.text)
                printed = await self.read(actor, ref, pod.uid, asked)
                async for lines in printed.lines:
                    hits += [Hit(pod.name, pod.attempt, at, text) for at, text in lines]
                    size += sum(len(text) for _, text in lines)
                    if size > FOUND_BYTES:
                        raise bad_request("limit", f"the lines found have more than {FOUND_BYTES} characters together.")
            hits = sorted(hits, key=attrgetter("at"))[-query.limit :]
            size = sum(len(hit.text) for hit in hits)
        return hits

    async def _reader(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> tuple[Workload, Pod, LogReader]:
        store = self._context.store
        workload, pod = await store.peek(lambda tx: _find(tx, actor, ref, pod_ref, query.attempt))
        return workload, pod, LogReader(store, self._reach, workload.cluster_id, pod.uid, query)

    async def _on(self, reader: LogReader, uid: str) -> AsyncIterator[list[Line]]:
        while True:
            pod = await self._context.store.peek(lambda tx: pods.get(tx, uid))
            lines = await reader.next()
            for some in _some(lines or []):
                yield some
            if not lines:
                yield []
            if lines is None:
                if pod is None or pod.phase.ended:
                    return
                await asyncio.sleep(FOLLOW_SECONDS)


async def _last(reader: LogReader, count: int) -> AsyncIterator[list[Line]]:
    while count > 0 and (lines := await reader.next()) is not None:
        for some in _some(lines[:count]):
            yield some
        count -= len(lines)


def _some(lines: list[Line]) -> Iterator[list[Line]]:
    for begin in range(0, len(lines), AT_ONCE):
        yield lines[begin : begin + AT_ONCE]


def _find(transaction: Transaction, actor: Actor, ref: str, pod_ref: str, attempt: int | None) -> tuple[Workload, Pod]:
    """The pod must belong to the workload."""
    workload = visible(transaction, actor, ref).workload
    candidates = pods.named(transaction, workload.uid, pod_ref)
    if not candidates:
        raise not_found("pod", pod_ref)
    for pod in candidates:
        if attempt in {None, pod.attempt}:
            return workload, pod
    attempts = ", ".join(map(str, sorted({each.attempt for each in candidates})))
    raise StokerError(ErrorCode.NOT_FOUND, f'Pod "{pod_ref}" was not in attempt {attempt}. Its attempts: {attempts}.')
