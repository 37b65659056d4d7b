"""What pods printed: kept lines from the store, the newest ones from the pod itself."""

import asyncio
import itertools
from collections.abc import AsyncIterator

from msgspec import Struct

from stoker.domain.errors import not_found
from stoker.domain.permissions import Actor
from stoker.domain.reach import LogLine, Reach
from stoker.domain.workload import Pod, Workload
from stoker.services.context import Context
from stoker.services.workloads import visible
from stoker.store import log_chunks, pods
from stoker.store.base import Transaction
from stoker.store.log_chunks import Line

LIVE = 200_000
"""The most lines that are asked of a pod at once."""
ROUNDS = 32
"""How often a pod is asked for more before what it printed meanwhile is left for the next time."""
END = 1 << 62
FOLLOW_SECONDS = 0.2


class LogQuery(Struct, frozen=True, kw_only=True):
    """`attempt` of None is the newest attempt that has the pod; `text` is a part of the line, in any case."""

    tail: int = 1000
    since: int = 0
    text: str = ""
    attempt: int | None = None


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


class Found(Struct, frozen=True):
    """`kept` is how far the store has the log, `live` what the pod has printed after that."""

    workload: Workload
    pod: Pod
    lines: list[Line]
    kept: int
    live: list[LogLine]


class Mark(Struct):
    """How far a log was read: the time of the last line, and how many lines in a row have that time."""

    at: int = 0
    count: int = 0

    def move(self, at: int) -> None:
        self.at, self.count = at, self.count + 1 if at == self.at else 1


class Logs:
    def __init__(self, context: Context, reach: Reach) -> None:
        self._context = context
        self._reach = reach

    async def read(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> Found:
        """The last lines of a pod, oldest first. They stay when the pod has gone."""
        workload, pod, position = await self._context.store.read(lambda tx: _find(tx, actor, ref, pod_ref, query))
        live = await self._live(workload, pod, position)
        if not live:  # it may have been written, and let go of, since the position was read
            position = await self._context.store.peek(lambda tx: log_chunks.collected_up_to(tx, pod.uid))
        recent = [(line.at, line.text) for line in live if line.at >= query.since]
        matching = [line for line in recent if _matches(line, query.text)]
        if len(matching) < query.tail:
            wanted = query.tail - len(matching)
            kept = await self._context.store.read(lambda tx: _kept(tx, pod.uid, query, position, wanted))
            matching = [*kept, *matching]
        return Found(workload, pod, matching[-query.tail :], position, live)

    async def search(self, actor: Actor, ref: str, query: SearchQuery) -> list[Hit]:
        """The last lines, over all pods and in the order of time, that hold a text."""

        def named(transaction: Transaction) -> list[Pod]:
            workload = visible(transaction, actor, ref).workload
            return pods.of_workload(transaction, workload.uid)

        hits: list[Hit] = []
        for pod in await self._context.store.read(named):
            if query.attempt in {None, pod.attempt}:
                asked = LogQuery(tail=query.limit, since=query.since, text=query.text)
                found = await self.read(actor, ref, pod.uid, asked)
                hits += [Hit(pod.name, pod.attempt, at, text) for at, text in found.lines]
        hits.sort(key=lambda hit: hit.at)
        return hits[-query.limit :]

    async def follow(self, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> AsyncIterator[list[Line]]:
        """The last lines, and then all new ones until the pod has ended, as many at a time as there are. What cannot
        be followed is told at once."""
        return self._follow(await self.read(actor, ref, pod_ref, query), query)

    async def _follow(self, found: Found, query: LogQuery) -> AsyncIterator[list[Line]]:
        yield found.lines
        uid, store = found.pod.uid, self._context.store
        mark = await store.read(lambda tx: _mark(tx, uid, found.kept))
        for each in found.live:
            mark.move(each.at)
        position = found.live[-1].position if found.live else found.kept
        while True:
            pod = await store.peek(lambda tx: pods.get(tx, uid))
            fresh = await self._reach.tail(found.workload.cluster_id, uid, position, LIVE)
            for each in fresh:
                position = each.position
                mark.move(each.at)
            yield [(each.at, each.text) for each in fresh if _matches((each.at, each.text), query.text)]
            if not fresh:
                if pod is None or pod.phase.ended:
                    break
                await asyncio.sleep(FOLLOW_SECONDS)
        yield [line for line in await store.read(lambda tx: _after(tx, uid, mark)) if _matches(line, query.text)]

    async def _live(self, workload: Workload, pod: Pod, position: int) -> list[LogLine]:
        """What a pod has printed from a position on."""
        lines: list[LogLine] = []
        for _ in range(ROUNDS):
            fresh = await self._reach.tail(workload.cluster_id, pod.uid, position, LIVE)
            if not fresh:
                break
            lines += fresh
            position = fresh[-1].position
        return lines


def _find(transaction: Transaction, actor: Actor, ref: str, pod_ref: str, query: LogQuery) -> tuple[Workload, Pod, int]:
    """The pod must belong to the workload; what is asked of it begins after what is kept."""
    workload = visible(transaction, actor, ref).workload
    candidates = pods.named(transaction, workload.uid, pod_ref)
    pod = next((pod for pod in candidates if query.attempt in {None, pod.attempt}), None)
    if pod is None:
        raise not_found("pod", pod_ref)
    return workload, pod, log_chunks.collected_up_to(transaction, pod.uid)


def _kept(transaction: Transaction, pod_uid: str, query: LogQuery, position: int, wanted: int) -> list[Line]:
    """Kept lines up to a position, newest first until there are enough, turned round."""
    lines = (
        line for line in log_chunks.backwards(transaction, pod_uid, query.since, position) if _matches(line, query.text)
    )
    return list(itertools.islice(lines, wanted))[::-1]


def _mark(transaction: Transaction, pod_uid: str, position: int) -> Mark:
    """The end of what is kept up to a position."""
    mark = Mark()
    for at, _ in log_chunks.backwards(transaction, pod_uid, 0, position):
        if mark.count and at != mark.at:
            break
        mark.move(at)
    return mark


def _after(transaction: Transaction, pod_uid: str, mark: Mark) -> list[Line]:
    """What is kept after a mark: the end of a pod that was let go of before it was read from the pod itself."""
    lines = list(log_chunks.backwards(transaction, pod_uid, mark.at, END))[::-1]
    same = [line for line in lines if line[0] == mark.at]
    return same[mark.count :] + [line for line in lines if line[0] > mark.at]


def _matches(line: Line, text: str) -> bool:
    return not text or text.casefold() in line[1].casefold()
