"""The reconciler: brings the pods of workloads in line with the intent that the store holds.

A workload that may need attention is enqueued; it is synced with the state of its pods, and the action that is left is
carried out on the engine. Reconciliation is level-triggered: after a crash every workload is enqueued once and goes on
from what is stored.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable

from msgspec import structs

from stoker.concurrency.supervisor import find_error
from stoker.controller.reconcile.actions import AbandonRollout, EnsurePods, next_action, next_check_at
from stoker.controller.reconcile.effects import EngineEffects
from stoker.controller.reconcile.rollout import RolloutPolicy, progress_deadline
from stoker.controller.reconcile.status import SyncResult, WorkloadState, advance, read_states, sync_status
from stoker.controller.runtime.lease import LeaseLostError
from stoker.controller.runtime.timers import TimerQueue
from stoker.controller.runtime.work_queue import INITIAL_BACKOFF_SECONDS, WorkQueue
from stoker.domain.clock import Clock
from stoker.domain.errors import StokerError
from stoker.store.cluster import nodes
from stoker.store.db.base import INLINE_MAX_PODS, Store, reader_for, writer_for

WORKER_COUNT = 16
SYNC_BATCH_SIZE = INLINE_MAX_PODS
MAX_REMEMBERED_VERSIONS = 20_000
"""For how many workloads the last synced version is remembered."""

log = logging.getLogger("stoker.controller")


class Reconciler:
    def __init__(
        self,
        store: Store,
        cluster_id: str,
        clock: Clock,
        effects: EngineEffects,
        mark_changed: Callable[[Iterable[str]], None],
        rollout_policy: RolloutPolicy,
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._effects = effects
        self._mark_changed = mark_changed
        self._rollout_policy = rollout_policy
        self._queue = WorkQueue(clock)
        self._submitted: asyncio.Queue[SyncResult] = asyncio.Queue()
        self._synced_versions: OrderedDict[str, int] = OrderedDict()
        self.timers = TimerQueue()

    def enqueue(self, uids: Iterable[str]) -> None:
        """Have these workloads synced."""
        self._queue.enqueue(uids)

    def submit(self, results: Iterable[SyncResult]) -> None:
        """Have the actions of workloads that were just synced carried out."""
        now = self._clock.now()
        for result in map(self._check_deadline, results):
            workload = result.state.workload
            due = (next_check_at(workload, now), progress_deadline(workload, result.state.pods, self._rollout_policy))
            self.timers.schedule(workload.uid, min((at for at in due if at is not None), default=None))
            self._synced_versions[workload.uid] = workload.version
            if result.action is not None and self._queue.acquire(workload.uid):
                self._submitted.put_nowait(result)
        while len(self._synced_versions) > MAX_REMEMBERED_VERSIONS:
            self._synced_versions.popitem(last=False)

    def _check_deadline(self, result: SyncResult) -> SyncResult:
        """Abandon a rollout whose progress deadline has passed."""
        deadline = progress_deadline(result.state.workload, result.state.pods, self._rollout_policy)
        late = deadline is not None and deadline <= self._clock.now() and isinstance(result.action, EnsurePods | None)
        return structs.replace(result, action=AbandonRollout()) if late else result

    def start(self, states: Collection[WorkloadState]) -> None:
        """Have the pods of workloads that were just dispatched launched."""
        now, observed = self._clock.now(), self._effects.observed_pods
        self.submit(
            SyncResult(state, True, next_action(state.workload, state.pods, observed, now))
            for state in states
            if state.pods
        )
        self.enqueue(state.workload.uid for state in states if not state.pods)

    def has_synced(self, uid: str, version: int) -> bool:
        """Whether this version of a workload was synced here."""
        return self._synced_versions.get(uid) == version

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._sync_loop())
                for _ in range(WORKER_COUNT):
                    group.create_task(self._worker())
        finally:
            self._queue.stop()

    async def _sync_loop(self) -> None:
        """Sync enqueued workloads in batches."""
        while True:
            uids = await self._queue.drain(SYNC_BATCH_SIZE)
            results: list[SyncResult] = []
            try:
                results = await self._sync(uids)
            except Exception as error:
                if find_error(error, (LeaseLostError,)):
                    raise
                _log_failure(f"{len(uids)} workloads could not be synced", error)
                self._queue.enqueue_after(INITIAL_BACKOFF_SECONDS, uids)
            except asyncio.CancelledError:
                self._queue.enqueue(uids)  # for the next run
                raise
            finally:
                self._queue.done(uids)
            self.submit(results)

    async def _sync(self, uids: Collection[str]) -> list[SyncResult]:
        effects = self._effects
        states, effects.node_cache = await reader_for(self._store, len(uids))(
            lambda tx: (
                read_states(tx, self._cluster_id, uids),
                nodes.refresh_cache(tx, self._cluster_id, effects.node_cache),
            )
        )
        now = self._clock.now()
        results: list[SyncResult] = []
        changed: dict[str, int] = {}
        workloads = (state.workload for state in states)
        if unseen := [workload.uid for workload in workloads if not self.has_synced(workload.uid, workload.version)]:
            self._mark_changed(unseen)  # the controller skips the events of versions that were synced here
        for state in states:
            transitions, action = advance(state, effects.observed_pods, now)
            if transitions:
                changed[state.workload.uid] = len(state.pods)
            else:
                results.append(SyncResult(state, False, action))
        if changed:
            write = writer_for(self._store, sum(changed.values()))
            results += await write(
                lambda tx: sync_status(tx, read_states(tx, self._cluster_id, changed), effects.observed_pods, now)
            )
            self._mark_changed(changed)
        return results

    async def _worker(self) -> None:
        """Carry out submitted actions, one workload at a time."""
        while True:
            result = await self._submitted.get()
            workload, action = result.state.workload, result.action
            again = True  # also when the worker is cancelled: the next run syncs it
            try:
                if not self._queue.is_stale(workload.uid):  # a stale one is synced again before anything is done
                    again = action is not None and await self._effects.execute(result.state, action)
                    self._queue.forget(workload.uid)
            except Exception as error:
                if find_error(error, (LeaseLostError,)):
                    raise
                _log_failure(f"workload {workload.slug} could not be reconciled", error)
                self._queue.enqueue_rate_limited(workload.uid)
                again = False
            finally:
                if again:
                    self._queue.enqueue([workload.uid])
                self._queue.done([workload.uid])


def _log_failure(summary: str, error: Exception) -> None:
    if isinstance(error, StokerError):
        log.warning("%s: %s", summary, error.message)
    else:
        log.error("%s", summary, exc_info=error)
