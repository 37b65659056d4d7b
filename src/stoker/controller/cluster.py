"""The controller of one cluster: records what the engine reports, schedules, and reconciles.

It is woken by workload events in the store, by reports of the engine and by timers. It starts to schedule and to
follow events once the engine has sent its first full report.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from stoker.concurrency.failpoints import failpoint
from stoker.concurrency.supervisor import Supervisor
from stoker.controller.collect.logs import LogCollector
from stoker.controller.policy.gpu_faults import requeue_from_faulty_gpus
from stoker.controller.reconcile.contact import UNKNOWN_AFTER_SECONDS, ContactMonitor
from stoker.controller.reconcile.effects import EngineEffects
from stoker.controller.reconcile.observe import batches, reconcile_full_sync, record_delta
from stoker.controller.reconcile.orphan_pods import OrphanPodReaper
from stoker.controller.reconcile.reconciler import Reconciler
from stoker.controller.reconcile.rollout import RolloutPolicy
from stoker.controller.reconcile.status import SyncResult, read_states, sync_status
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.controller.scheduling.loop import SchedulingLoop
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.domain.names import RandomBytes
from stoker.domain.settings.schema import GpuFaultAction
from stoker.domain.workload.phase import Phase
from stoker.engines.model import Delta, Disconnected, FullSync, ObservedPod, SyncReport
from stoker.engines.protocol import Engine
from stoker.store.db.base import INLINE_MAX_PODS, Store, Transaction, writer_for
from stoker.store.db.notify import ChangeNotifier
from stoker.store.workloads import events, rows
from stoker.store.workloads.events import WorkloadEventRow

RESYNC_SECONDS = 30.0
"""How often the scheduler runs at the latest, in case a wake-up was missed."""
EVENT_POLL_SECONDS = 1.0
"""How often events written by other processes are polled for."""
REPLAYED_EVENTS = 1000
"""How many of the last events are processed again after a start: a crash may have come before they took effect."""
COOLDOWN_FACTOR = 4.0
"""After a scheduling cycle the scheduler pauses for this multiple of the cycle's duration, so that long cycles over
thousands of workloads do not occupy the event loop."""
MAX_COOLDOWN_SECONDS = 1.0

log = logging.getLogger("stoker.controller")


class ClusterController:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        randomness: RandomBytes,
        notifier: ChangeNotifier,
        dirty: DirtySet,
        supervisor: Supervisor,
        log_limit_bytes: int,
        rollout: RolloutPolicy | None = None,
        gpu_fault_action: GpuFaultAction = GpuFaultAction.KEEP,
        unknown_after_seconds: float = UNKNOWN_AFTER_SECONDS,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._notifier = notifier
        self._dirty = dirty
        self._schedule_due = asyncio.Event()
        self._synced = asyncio.Event()
        self._scheduling = SchedulingLoop(store, cluster_id, clock, randomness, engine.capabilities.admission)
        self._logs = LogCollector(store, engine, clock, log_limit_bytes)
        rollout_policy = rollout or RolloutPolicy()
        self._effects = EngineEffects(
            store, engine, cluster_id, clock, self._logs, randomness, self._mark_changed, rollout_policy
        )
        self._reconciler = Reconciler(store, cluster_id, clock, self._effects, self._mark_changed, rollout_policy)
        self._gpu_fault_action = gpu_fault_action
        self._orphans = OrphanPodReaper(store, engine, clock)
        self._contact = ContactMonitor(store, cluster_id, clock, self._mark_changed, unknown_after_seconds)
        self._event_cursor: events.EventCursor | None = None
        self._supervisor = supervisor

    async def run(self) -> None:
        loops = {
            "observe": self._observe,
            "changes": self._follow_events,
            "queue": self._schedule,
            "timers": self._run_timers,
            "logs": self._logs.run,
            "reconcile": self._reconciler.run,
            "stray pods": self._orphans.run,
            "contact": self._contact.run,
        }
        async with asyncio.TaskGroup() as group:
            for name, loop in loops.items():
                group.create_task(self._supervisor.run(name, loop))

    def nodes_changed(self) -> None:
        """Nodes were changed in the store by something other than the engine's reports: schedule."""
        self._schedule_due.set()

    def _mark_changed(self, uids: Iterable[str]) -> None:
        """These workloads or their pods were changed: schedule, refresh the live view and wake the listeners."""
        for uid in uids:
            self._scheduling.mark_changed(uid)
            self._dirty.mark_workload(uid)
        self._schedule_due.set()
        self._notifier.notify()

    async def _observe(self) -> None:
        async for report in self._engine.watch():
            if isinstance(report, Disconnected):
                log.warning("cluster %s cannot be reached: %s", self._cluster_id, report.message)
                await self._contact.mark_lost(report)
                continue
            await self._contact.mark_restored()
            self._effects.track_pods(report)
            unsynced, results, orphans = await self._record(report)
            if self._orphans.update(report, orphans):
                self._scheduling.exclude_orphans(self._orphans.as_pods())
            if report.pods:
                failpoint("controller.observed")
            self._dirty.mark_nodes(report.nodes)
            if isinstance(report, FullSync):
                self._scheduling.invalidate()
                self._dirty.mark_all()
            self._reconciler.submit(results)
            self._reconciler.enqueue(unsynced)
            self._mark_changed(unsynced.union(result.state.workload.uid for result in results))
            self._synced.set()
            for event in report.events:
                await self._effects.record_engine_event(event)

    async def _record(self, report: SyncReport) -> tuple[set[str], list[SyncResult], list[ObservedPod]]:
        """Store a report. Returns the workloads that are still to be synced, the results of those that were, and the
        pods that run although the store does not expect them."""
        now = self._clock.now()
        unsynced: set[str] = set()
        results: list[SyncResult] = []
        orphans: list[ObservedPod] = []
        for batch in batches(report, INLINE_MAX_PODS):
            for batch_results, batch_orphans in await self._record_batch(batch, now):
                results += batch_results
                orphans += batch_orphans
        if isinstance(report, FullSync):
            unsynced = await self._store.write(lambda tx: reconcile_full_sync(tx, self._cluster_id, report, now))
        return unsynced, results, orphans

    async def _record_batch(self, batch: Delta, now: int) -> list[tuple[list[SyncResult], list[ObservedPod]]]:
        """Store a batch. If that fails unexpectedly, its entries are stored one by one and the failing one skipped."""
        try:
            write = writer_for(self._store, len(batch.pods) + len(batch.gone) + len(batch.nodes))
            return [await write(lambda tx: self._record_and_sync(tx, batch, now))]
        except StokerError:
            raise
        except Exception:
            entries = list(batches(batch, 1))
            if len(entries) == 1:
                log.exception("a report of the engine of cluster %s is skipped: %s", self._cluster_id, batch)
                return []
        return [recorded for entry in entries for recorded in await self._record_batch(entry, now)]

    def _record_and_sync(
        self, transaction: Transaction, batch: Delta, now: int
    ) -> tuple[list[SyncResult], list[ObservedPod]]:
        changed, orphans = record_delta(transaction, self._cluster_id, batch, now)
        if batch.nodes and self._gpu_fault_action is GpuFaultAction.REQUEUE:
            names = {node.name for node in batch.nodes}
            changed |= requeue_from_faulty_gpus(transaction, self._cluster_id, names, now)
        states = read_states(transaction, self._cluster_id, changed)
        return sync_status(transaction, states, self._effects.observed_pods, now), orphans

    async def _follow_events(self) -> None:
        """Process workload events, whoever wrote them: a stop request, an edit, a new workload."""
        await self._synced.wait()
        with self._notifier.listen() as listener:
            if self._event_cursor is None:
                self._event_cursor = events.EventCursor(
                    max(0, await self._store.read_inline(events.last_seq) - REPLAYED_EVENTS)
                )
            cursor = self._event_cursor
            while True:
                rows = await self._store.read_inline(lambda tx: cursor.read(tx, self._clock.now()))
                if not rows:
                    await listener.wait(EVENT_POLL_SECONDS)
                    continue
                try:
                    await self._process_events(rows)
                except BaseException:
                    self._event_cursor = None  # the next run of this loop reads them again
                    raise

    async def _process_events(self, event_rows: Sequence[WorkloadEventRow]) -> None:
        """Enqueue the workloads of events, except for versions that were synced here already."""
        slugs = {row.workload_uid: row.slug for row in event_rows}
        versions = await self._store.read_inline(lambda tx: rows.versions(tx, slugs))
        unseen = {uid: slug for uid, slug in slugs.items() if self._is_unseen(uid, slug, *versions.get(uid, (0, "")))}
        for uid, slug in unseen.items():
            self._scheduling.mark_changed(uid, slug)
            self._dirty.mark_workload(uid)
        if unseen:
            dispatched = (row.workload_uid for row in event_rows if not Phase(row.phase).is_pending)
            self._reconciler.enqueue(uid for uid in dispatched if uid in unseen)
            self._schedule_due.set()

    def _is_unseen(self, uid: str, slug: str, version: int, cluster_id: str) -> bool:
        if cluster_id != self._cluster_id:
            return self._scheduling.has_dependents(uid, slug)
        return not self._reconciler.has_synced(uid, version)

    async def _schedule(self) -> None:
        await self._synced.wait()
        now = asyncio.get_running_loop().time
        while True:
            await self._contact.wait_reachable()
            began = now()
            result = await self._scheduling.run_cycle()
            cooldown = min(MAX_COOLDOWN_SECONDS, COOLDOWN_FACTOR * (now() - began))
            self._reconciler.start(list(result.started.values()))
            self._reconciler.enqueue(result.changed)
            for uid in (*result.started, *result.changed):
                self._dirty.mark_workload(uid)
            if result.started or result.changed or result.has_new_reasons:
                self._notifier.notify()
            await asyncio.sleep(cooldown)
            await self._wait(self._schedule_due, self._seconds_until(result.next_at))

    async def _run_timers(self) -> None:
        while True:
            self._reconciler.enqueue(self._reconciler.timers.pop_due(self._clock.now()))
            await self._clock.sleep(min(0.2, self._seconds_until(self._reconciler.timers.next_due())))

    def _seconds_until(self, at: int | None) -> float:
        return RESYNC_SECONDS if at is None else min(RESYNC_SECONDS, max(0.0, (at - self._clock.now()) / 1000))

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
        event.clear()
