"""Brings one workload at a time to where its intent says it should be.

A workload that may need attention is `touched`; it is then judged until there is nothing left to do. Nothing
depends on having seen every step: after a crash everything is touched once, and goes on from what is written.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stoker.controller.alarms import Alarms
from stoker.controller.dispatch import succeed
from stoker.controller.effects import GRACE_SECONDS, order_of
from stoker.controller.judge import End, Happened, LetGo, Start, Succeed, judge, next_look
from stoker.controller.logs import LogCollector
from stoker.controller.observe import record_missing
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.lifecycle import Event, transition
from stoker.domain.names import Randomness
from stoker.domain.node import Node
from stoker.domain.workload import Pod, Workload
from stoker.engines.base import Engine
from stoker.engines.failpoints import failpoint
from stoker.store import nodes, pods, workloads
from stoker.store.base import Store, Transaction
from stoker.store.signal import Signal

WORKERS = 16
AGAIN_SECONDS = 2.0

log = logging.getLogger("stoker.controller")


class State(Struct, frozen=True):
    """A workload and the pods of its present attempt."""

    workload: Workload
    pods: Sequence[Pod]
    nodes: Mapping[str, Node]


class Reconciler:
    def __init__(
        self, store: Store, engine: Engine, clock: Clock, logs: LogCollector, signal: Signal, randomness: Randomness
    ) -> None:
        self._store = store
        self._engine = engine
        self._clock = clock
        self._logs = logs
        self._signal = signal
        self._randomness = randomness
        self._touched: dict[str, None] = {}
        self._busy: set[str] = set()
        self._work = asyncio.Condition()
        self._started: dict[str, tuple[int, int, frozenset[str]]] = {}
        self._ended: dict[str, int] = {}
        self.alarms = Alarms()
        self.had: set[str] = set()
        """The pods the engine reports."""

    async def touch(self, *uids: str) -> None:
        """These workloads may need attention."""
        if uids:
            async with self._work:
                self._touched |= dict.fromkeys(uids)
                self._work.notify(len(uids))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            async with self._work:
                await self._work.wait_for(lambda: any(uid not in self._busy for uid in self._touched))
                uid = next(uid for uid in self._touched if uid not in self._busy)
                del self._touched[uid]
                self._busy.add(uid)
            try:
                await self._settle(uid)
            except StokerError as error:
                log.warning("workload %s could not be brought on: %s", uid, error.message)
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._touch_later, uid)
            except Exception:
                log.exception("workload %s could not be brought on", uid)
                asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._touch_later, uid)
            finally:
                async with self._work:
                    self._busy.discard(uid)
                    self._work.notify()

    def _touch_later(self, uid: str) -> None:
        self._again = asyncio.ensure_future(self.touch(uid))

    async def _settle(self, uid: str) -> None:
        """Judge and act until nothing is left to do."""
        while True:
            state = await self._store.read(lambda tx: _state(tx, uid))
            if state is None:
                return
            now = self._clock.now()
            workload = state.workload
            self.alarms.set(uid, next_look(workload, now))
            match judge(workload, state.pods, self.had, now):
                case Happened(event):
                    if not await self._store.write(lambda tx, e=event: _go_through(tx, uid, e)):
                        return
                    self._signal.notify()
                case Start(wanted):
                    if not await self._start(state, wanted):
                        return
                case Succeed(followed):
                    await self._store.write(
                        lambda tx, w=workload, f=followed, at=now: succeed(tx, w, f, at, self._randomness)
                    )
                case End(never_had):
                    if not await self._end(workload, never_had):
                        return
                case LetGo():
                    await self._let_go(workload)
                    return
                case None:
                    return

    async def _start(self, state: State, wanted: Sequence[Pod]) -> bool:
        """Have the engine run these; True when others, that it will now never begin, are over with that."""
        workload = state.workload
        version = (workload.attempt, workload.revision, frozenset(pod.uid for pod in wanted))
        if not wanted or self._started.get(workload.uid) == version:
            return False
        await self._engine.apply(order_of(workload, wanted, state.nodes))
        failpoint("controller.applied")
        self._started[workload.uid] = version
        left = [pod for pod in state.pods if not pod.phase.ended and pod.uid not in version[2] | self.had]
        never = [pod for pod in left if not await self._engine_has(pod)]
        if never:
            at = self._clock.now()
            await self._store.write(lambda tx: record_missing(tx, never, at, "it was replaced before it began"))
        return bool(never)

    async def _engine_has(self, pod: Pod) -> bool:
        """Asks the engine itself: what it reports may be on its way."""
        try:
            await self._engine.logs(pod.uid, 0, 1)
        except StokerError as error:
            if error.code is ErrorCode.NOT_FOUND:
                return False
            raise
        return True

    async def _end(self, workload: Workload, never_had: Sequence[Pod]) -> bool:
        """Ask the engine to end the attempt; True when pods it never had are over with that."""
        if self._ended.get(workload.uid) == workload.attempt and not never_had:
            return False
        there = await self._engine.remove(workload.uid, workload.attempt, GRACE_SECONDS)
        failpoint("controller.removed")
        self._ended[workload.uid] = workload.attempt
        unknown = [pod for pod in never_had if pod.uid not in there]
        if unknown:
            at = self._clock.now()
            await self._store.write(lambda tx: record_missing(tx, unknown, at, "it was ended before it began"))
        return bool(unknown)

    async def _let_go(self, workload: Workload) -> None:
        """Keep what its pods printed, of every attempt, and then let the engine forget them."""
        self._started.pop(workload.uid, None)
        self._ended.pop(workload.uid, None)
        if workload.deleted_at is not None:
            failpoint("controller.discarding")
            await self._discard(workload)
        every = await self._store.read(lambda tx: pods.of_workload(tx, workload.uid))
        held = [pod for pod in every if pod.uid in self.had]
        if held:
            await self._logs.finish(held)
            failpoint("controller.logs-kept")
            for attempt in sorted({pod.attempt for pod in held}):
                await self._engine.forget(workload.uid, attempt)
            failpoint("controller.forgotten")

    async def _discard(self, workload: Workload) -> None:
        try:
            await self._engine.discard(workload.slug)
        except OSError as error:
            log.warning("what workload %s left behind could not be removed: %s", workload.slug, error)


def _state(transaction: Transaction, uid: str) -> State | None:
    workload = workloads.find(transaction, uid)
    if workload is None:
        return None
    held = pods.of_attempt(transaction, uid, workload.attempt)
    return State(workload, held, nodes.named(transaction, workload.cluster_id, {pod.node for pod in held}))


def _go_through(transaction: Transaction, uid: str, event: Event) -> bool:
    workload = workloads.find(transaction, uid)
    change = transition(workload, event) if workload else None
    if workload is None or change is None:
        return False
    workloads.apply(transaction, workload, change)
    return True
