"""Everything that keeps one cluster going: what the engine reports, the queue, the alarms and the reconciler.

Three things wake it: a change that someone wrote, a report of the engine, and the clock.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from stoker.controller.effects import GRACE_SECONDS
from stoker.controller.lease import LeaseLostError
from stoker.controller.logs import LogCollector
from stoker.controller.observe import record_missing, record_nodes, record_pods
from stoker.controller.queue import QueueLoop
from stoker.controller.reconcile import Reconciler
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.names import Randomness
from stoker.domain.workload import Phase
from stoker.engines.base import Engine, Everything, Observation
from stoker.engines.failpoints import failpoint
from stoker.store import changes, pods, workloads
from stoker.store.base import Store, Transaction
from stoker.store.signal import Signal

IDLE_SECONDS = 30.0
"""The longest anything waits for a wake that was missed."""
CHANGES_SECONDS = 1.0
"""How often changes that another process wrote are looked for."""
LOOK_BACK = 1000
"""How many of the last changes are gone through again at the start: a crash may have come before their effect."""
AGAIN_SECONDS = 1.0
REST = 4.0
"""After a round of planning the queue rests so many times as long as it took, so that it never takes all there is:
a round over thousands is long, and everything that happens asks for one."""
LONGEST_REST_SECONDS = 1.0

log = logging.getLogger("stoker.controller")


class ClusterController:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        randomness: Randomness,
        signal: Signal,
        log_limit_bytes: int,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._signal = signal
        self._queue_due = asyncio.Event()
        self._observed = asyncio.Event()
        self._queue = QueueLoop(store, cluster_id, clock, randomness)
        self._logs = LogCollector(store, engine, clock, log_limit_bytes)
        self._reconciler = Reconciler(store, engine, clock, self._logs, signal, randomness)
        self._queue_at: int | None = None
        self._changes: changes.Cursor | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for loop in (self._observe, self._follow_changes, self._plan, self._ring, self._logs.run):
                group.create_task(self._forever(loop))
            group.create_task(self._reconciler.run())

    async def _forever(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """A loop that fails is begun again; nothing it does depends on what it remembered."""
        while True:
            try:
                await loop()
            except LeaseLostError:
                raise
            except StokerError as error:
                log.warning("%s", error.message)
            except Exception:
                log.exception("a loop of cluster %s failed and is begun again", self._cluster_id)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _observe(self) -> None:
        async for report in self._engine.observe():
            touched = await self._store.write(lambda tx, r=report: self._record(tx, r))
            if report.pods:
                failpoint("controller.observed")
            self._note_pods(report)
            await self._reconciler.touch(*touched)
            await self._end_strays(report)
            self._observed.set()
            self._queue_due.set()
            self._signal.notify()

    async def _end_strays(self, report: Observation) -> None:
        """End pods of workloads that the store does not know: it was put back to an earlier day."""
        if not isinstance(report, Everything):
            return
        running = {(pod.workload_uid, pod.attempt) for pod in report.pods if pod.workload_uid and not pod.phase.ended}
        for uid, attempt in sorted(running):
            if await self._store.peek(lambda tx, u=uid: workloads.find(tx, u)) is None:
                log.warning("pods of a workload that is not known (%s) are ended", uid)
                await self._engine.remove(uid, attempt, GRACE_SECONDS)

    def _note_pods(self, report: Observation) -> None:
        if isinstance(report, Everything):
            self._reconciler.had = {pod.uid for pod in report.pods}
            return
        self._reconciler.had |= {pod.uid for pod in report.pods}
        self._reconciler.had -= set(report.gone)

    def _record(self, transaction: Transaction, report: Observation) -> set[str]:
        now = self._clock.now()
        record_nodes(transaction, self._cluster_id, report, now)
        touched = record_pods(transaction, report.pods, now)
        if isinstance(report, Everything):
            there = {pod.uid for pod in report.pods}
            held = pods.held(transaction, self._cluster_id)
            begun = [pod for pod in held if pod.uid not in there and pod.started_at is not None]
            touched |= record_missing(transaction, begun, now, "it was gone when contact came back")
            touched |= {pod.workload_uid for pod in report.pods if pod.workload_uid}
            return touched | {workload.uid for workload in workloads.active(transaction, self._cluster_id)}
        known = (pods.get(transaction, uid) for uid in report.gone)
        gone = [pod for pod in known if pod is not None and not pod.phase.ended]
        return touched | record_missing(transaction, gone, now, "it is gone from its node")

    async def _follow_changes(self) -> None:
        """Touch what was changed by anyone: a stop, an edit, a new workload."""
        with self._signal.listening() as listener:
            if self._changes is None:
                self._changes = changes.Cursor(max(0, await self._store.peek(changes.last) - LOOK_BACK))
            cursor = self._changes
            while True:
                rows = await self._store.peek(lambda tx: cursor.read(tx, self._clock.now()))
                if not rows:
                    await listener.wait(CHANGES_SECONDS)
                    continue
                moved = (row.workload_uid for row in rows if not Phase(row.phase).queued)
                await self._reconciler.touch(*dict.fromkeys(moved))
                self._queue_due.set()

    async def _plan(self) -> None:
        await self._observed.wait()
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            outcome = await self._queue.round()
            rest = min(LONGEST_REST_SECONDS, REST * (now() - began))
            await self._reconciler.touch(*outcome.touched)
            if outcome.touched:
                self._signal.notify()
            await asyncio.sleep(rest)
            await self._wait(self._queue_due, self._seconds_until(outcome.again_at))

    async def _ring(self) -> None:
        while True:
            await self._reconciler.touch(*self._reconciler.alarms.ring(self._clock.now()))
            await asyncio.sleep(min(0.2, self._seconds_until(self._reconciler.alarms.next())))

    def _seconds_until(self, at: int | None) -> float:
        return IDLE_SECONDS if at is None else min(IDLE_SECONDS, max(0.0, (at - self._clock.now()) / 1000))

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        event.clear()
