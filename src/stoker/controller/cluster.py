"""Everything that keeps one cluster going: what the engine reports, the queue, the alarms and the reconciler.

Three things wake it: a change that someone wrote, a report of the engine, and the clock.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from stoker.controller.effects import GRACE_SECONDS
from stoker.controller.forever import forever
from stoker.controller.lease import still_ours
from stoker.controller.logs import LogCollector
from stoker.controller.news import News
from stoker.controller.observe import parts, record, record_rest
from stoker.controller.queue import QueueLoop
from stoker.controller.reconcile import Reconciler
from stoker.controller.settle import Settled, read_states, settle
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.names import Randomness
from stoker.domain.workload import Phase
from stoker.engines.base import Changes, Engine, Everything, Observation
from stoker.engines.failpoints import failpoint
from stoker.store import changes, workloads
from stoker.store.base import FEW, Store, Transaction, writing
from stoker.store.changes import ChangeRow
from stoker.store.signal import Signal

IDLE_SECONDS = 30.0
"""The longest anything waits for a wake that was missed."""
CHANGES_SECONDS = 1.0
"""How often changes that another process wrote are looked for."""
LOOK_BACK = 1000
"""How many of the last changes are gone through again at the start: a crash may have come before their effect."""
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
        news: News,
        log_limit_bytes: int,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._signal = signal
        self._news = news
        self._queue_due = asyncio.Event()
        self._observed = asyncio.Event()
        self._queue = QueueLoop(store, cluster_id, clock, randomness)
        self._logs = LogCollector(store, engine, clock, log_limit_bytes)
        self._reconciler = Reconciler(store, engine, cluster_id, clock, self._logs, randomness, self._moved)
        self._changes: changes.Cursor | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for loop in (self._observe, self._follow_changes, self._plan, self._ring, self._logs.run):
                group.create_task(forever(loop, self._cluster_id))
            group.create_task(self._reconciler.run())

    def _moved(self, uids: Iterable[str]) -> None:
        """These workloads, or their pods, are no longer as they were."""
        for uid in uids:
            self._queue.note(uid)
            self._news.workload(uid)
        self._queue_due.set()
        self._signal.notify()

    async def _observe(self) -> None:
        async for report in self._engine.observe():
            self._note_pods(report)
            touched, settled = await self._record(report)
            if report.pods:
                failpoint("controller.observed")
            self._news.nodes(report.nodes)
            if isinstance(report, Everything):
                self._queue.forget()
                self._news.everything()
            self._reconciler.take(settled)
            self._reconciler.touch(touched)
            self._moved(touched.union(each.state.workload.uid for each in settled))
            self._observed.set()
            await self._end_strays(report)

    def _note_pods(self, report: Observation) -> None:
        if isinstance(report, Everything):
            self._reconciler.had = {pod.uid for pod in report.pods}
            return
        self._reconciler.had |= {pod.uid for pod in report.pods}
        self._reconciler.had -= set(report.gone)

    async def _record(self, report: Observation) -> tuple[set[str], list[Settled]]:
        """Write a report down, and what follows from it. Gives workloads that are to be looked at, and settled ones."""
        now = self._clock.now()
        touched: set[str] = set()
        settled: list[Settled] = []
        for part in parts(report, FEW):
            settled += await self._record_part(part, now)
        if isinstance(report, Everything):
            touched = await self._store.write(lambda tx: record_rest(tx, self._cluster_id, report, now))
        return touched, settled

    async def _record_part(self, part: Changes, now: int) -> list[Settled]:
        """One thing that cannot be written down keeps no other from it."""
        try:
            write = writing(self._store, len(part.pods) + len(part.gone) + len(part.nodes))
            return await write(lambda tx: self._record_and_settle(tx, part, now))
        except StokerError:
            raise
        except Exception:
            alone = list(parts(part, 1))
            if len(alone) == 1:
                log.exception("what the engine of cluster %s reports is passed over: %s", self._cluster_id, part)
                return []
        return [each for one in alone for each in await self._record_part(one, now)]

    def _record_and_settle(self, transaction: Transaction, part: Changes, now: int) -> list[Settled]:
        touched = record(transaction, self._cluster_id, part, now)
        return settle(transaction, read_states(transaction, self._cluster_id, touched), self._reconciler.had, now)

    async def _end_strays(self, report: Observation) -> None:
        """End pods of workloads that the store does not know: it was put back to an earlier day."""
        if not isinstance(report, Everything):
            return
        running = {(pod.workload_uid, pod.attempt) for pod in report.pods if pod.workload_uid and not pod.phase.ended}
        known = await self._store.read(lambda tx: workloads.versions(tx, {uid for uid, _ in running}))
        for uid, attempt in sorted(running):
            if uid not in known:
                log.warning("pods of a workload that is not known (%s) are ended", uid)
                await self._store.peek(still_ours)
                try:
                    await self._engine.remove(uid, attempt, GRACE_SECONDS)
                except StokerError as error:
                    log.warning("they could not be ended: %s", error.message)

    async def _follow_changes(self) -> None:
        """Take up what was changed by anyone: a stop, an edit, a new workload."""
        await self._observed.wait()
        with self._signal.listening() as listener:
            if self._changes is None:
                self._changes = changes.Cursor(max(0, await self._store.peek(changes.last) - LOOK_BACK))
            cursor = self._changes
            while True:
                rows = await self._store.peek(lambda tx: cursor.read(tx, self._clock.now()))
                if not rows:
                    await listener.wait(CHANGES_SECONDS)
                    continue
                await self._follow(rows)

    async def _follow(self, rows: Sequence[ChangeRow]) -> None:
        """What was settled here needs no second look."""
        slugs = {row.workload_uid: row.slug for row in rows}
        versions = await self._store.peek(lambda tx: workloads.versions(tx, slugs))
        news = {uid: slug for uid, slug in slugs.items() if self._is_news(uid, slug, *versions.get(uid, (0, "")))}
        for uid, slug in news.items():
            self._queue.note(uid, slug)
            self._news.workload(uid)
        if news:
            acted_on = (row.workload_uid for row in rows if not Phase(row.phase).queued)
            self._reconciler.touch(uid for uid in acted_on if uid in news)
            self._queue_due.set()

    def _is_news(self, uid: str, slug: str, version: int, cluster_id: str) -> bool:
        if cluster_id != self._cluster_id:
            return self._queue.awaits(uid, slug)
        return not self._reconciler.knows(uid, version)

    async def _plan(self) -> None:
        await self._observed.wait()
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            outcome = await self._queue.round()
            rest = min(LONGEST_REST_SECONDS, REST * (now() - began))
            self._reconciler.begin(list(outcome.begun.values()))
            self._reconciler.touch(outcome.touched)
            for uid in (*outcome.begun, *outcome.touched):
                self._news.workload(uid)
            if outcome.begun or outcome.touched:
                self._signal.notify()
            await asyncio.sleep(rest)
            await self._wait(self._queue_due, self._seconds_until(outcome.again_at))

    async def _ring(self) -> None:
        while True:
            self._reconciler.touch(self._reconciler.alarms.ring(self._clock.now()))
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
