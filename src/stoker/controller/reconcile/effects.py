"""Carries out the reconciler's actions: engine calls, and the records of how the engine answered.

Every engine call is preceded by a check that this server still holds the cluster's lease. An action may be repeated at
any time: what the engine was asked already for the same version is not asked again.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import structs

from stoker.concurrency.failpoints import failpoint
from stoker.controller.collect.logs import LogCollector
from stoker.controller.reconcile.actions import (
    AbandonRollout,
    EmitEvent,
    EnsurePods,
    ReconcileAction,
    ReleaseAttempt,
    ReplacePods,
    SubmitToEngine,
    TerminateAttempt,
    forced_termination_at,
)
from stoker.controller.reconcile.delegated import record_submission
from stoker.controller.reconcile.launch import build_launch_spec, launch_spec_with_pods, workload_ref
from stoker.controller.reconcile.observe import record_missing_pods
from stoker.controller.reconcile.rollout import RolloutPolicy, abandon_rollout
from stoker.controller.reconcile.status import WorkloadState
from stoker.controller.runtime.lease import assert_leader
from stoker.controller.scheduling.dispatch import create_replacements
from stoker.domain.clock import Clock
from stoker.domain.cluster.node import Node
from stoker.domain.errors import StokerError
from stoker.domain.names import RandomBytes
from stoker.domain.workload.events import LaunchRejected, LaunchRetrying, LifecycleEvent, NoteAdded
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import DEFAULT_GRACE_SECONDS, Workload
from stoker.domain.workload.pod import Pod
from stoker.engines.model import EngineEvent, FullSync, SyncReport
from stoker.engines.protocol import PERMANENT_ERRORS, Engine
from stoker.store.cluster import nodes
from stoker.store.cluster.nodes import EMPTY_NODE_CACHE, NodeCache
from stoker.store.db.base import Store, Transaction
from stoker.store.workloads import pods, rows, transitions

log = logging.getLogger("stoker.controller")


class EngineEffects:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        logs: LogCollector,
        randomness: RandomBytes,
        mark_changed: Callable[[Iterable[str]], None],
        rollout_policy: RolloutPolicy,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._logs = logs
        self._randomness = randomness
        self._mark_changed = mark_changed
        self._rollout_policy = rollout_policy
        self._applied: dict[str, tuple[int, int, frozenset[str]]] = {}
        """By workload: the attempt, revision and pods that the engine has last accepted."""
        self._terminated: dict[str, tuple[int, float, bool]] = {}
        """By workload: the attempt that the engine was asked to terminate, the grace period, and whether by force."""
        self.node_cache: NodeCache = EMPTY_NODE_CACHE
        self.observed_pods: set[str] = set()
        """The pods that the engine reports."""

    def track_pods(self, report: SyncReport) -> None:
        """Update the set of pods that the engine reports."""
        if isinstance(report, FullSync):
            self.observed_pods = {pod.uid for pod in report.pods}
            self._applied.clear()  # the engine may have lost what it accepted
            self._terminated.clear()
            return
        self.observed_pods |= {pod.uid for pod in report.pods}
        self.observed_pods -= set(report.gone)

    async def execute(self, state: WorkloadState, action: ReconcileAction) -> bool:
        """Carry out one action. Returns whether the workload has to be synced again at once."""
        workload = state.workload
        match action:
            case EnsurePods(wanted):
                return await self._ensure_pods(state, wanted)
            case SubmitToEngine():
                return await self._submit(workload)
            case ReplacePods():
                at = self._clock.now()
                again = await self._store.write(lambda tx: create_replacements(tx, workload, at, self._randomness))
                self._mark_changed([workload.uid])
                return again
            case TerminateAttempt(unknown_pods):
                return await self._terminate(workload, unknown_pods)
            case AbandonRollout():
                abandoned = await self._store.write(
                    lambda tx: abandon_rollout(tx, state, self._rollout_policy, self._clock.now())
                )
                self._mark_changed([workload.uid])
                return abandoned
            case ReleaseAttempt():
                await self._release(state)
                return False
            case EmitEvent():
                return False

    async def record_engine_event(self, event: EngineEvent) -> None:
        """Record an engine's remark on a workload: as the reason why its pods are pending, or as a note."""
        at = self._clock.now()
        delay = f"its pods cannot be started yet: {event.message}"
        change = LaunchRetrying(at, delay) if event.pending_pods else NoteAdded(at, event.reason, event.message)

        def write(transaction: Transaction) -> None:
            workload = rows.find(transaction, event.workload_uid)
            if workload is not None and workload.attempt == event.attempt:
                pods.set_pending_message(transaction, event.pending_pods, delay)
                _apply_event(transaction, workload, change)

        await self._store.write(write)
        self._mark_changed([event.workload_uid])

    async def _ensure_pods(self, state: WorkloadState, wanted: Sequence[Pod]) -> bool:
        """Have the engine run these pods. Returns whether pods or their workload were changed by it."""
        workload = state.workload
        version = (workload.attempt, workload.revision, frozenset(pod.uid for pod in wanted))
        if all(pod.phase.is_finished for pod in wanted) or self._applied.get(workload.uid) == version:
            return False
        launch_spec = build_launch_spec(workload, wanted, await self._load_nodes(wanted))
        await self._store.read_inline(assert_leader)
        try:
            await self._engine.apply(launch_spec)
        except StokerError as error:
            if error.code in PERMANENT_ERRORS:
                self._applied[workload.uid] = version
                await self._record_rejection(state, wanted, error)
                return True
            await self._record_delay(workload, wanted, error.message)
            raise
        except Exception:
            await self._record_delay(workload, wanted, "Something unexpected happened; the server's log has more.")
            raise
        failpoint("controller.applied")
        self._applied[workload.uid] = version
        others = [pod for pod in state.pods if not pod.phase.is_finished and pod.uid not in version[2]]
        existing = await self._existing_pods(workload, others)
        never = [pod for pod in others if pod.uid not in existing]
        return await self._mark_never_started(workload, never, "it was replaced before it began")

    async def _submit(self, workload: Workload) -> bool:
        """Hand a delegated workload to the engine. Returns whether it was changed by it."""
        await self._store.read_inline(assert_leader)
        try:
            engine_ref = await self._engine.apply(launch_spec_with_pods(workload, ()))
        except StokerError as error:
            if error.code not in PERMANENT_ERRORS:
                await self._record_delay(workload, (), error.message)
                raise
            await self._record_rejection(WorkloadState(workload, ()), (), error)
            return True
        failpoint("controller.applied")
        at = self._clock.now()
        submitted = await self._store.write(lambda tx: record_submission(tx, workload, engine_ref, at))
        self._mark_changed([workload.uid])
        return submitted

    async def _load_nodes(self, wanted: Iterable[Pod]) -> Mapping[str, Node]:
        if any(pod.node not in self.node_cache.nodes for pod in wanted):
            self.node_cache = await self._store.read_inline(
                lambda tx: nodes.refresh_cache(tx, self._cluster_id, self.node_cache)
            )
        return self.node_cache.nodes

    async def _record_delay(self, workload: Workload, wanted: Sequence[Pod], reason: str) -> None:
        """Record why the engine has not started these pods; it is asked again."""
        message = f"its pods cannot be started yet: {reason}"
        event = LaunchRetrying(self._clock.now(), message)

        def write(transaction: Transaction) -> None:
            pods.set_pending_message(transaction, [pod.uid for pod in wanted], message)
            _apply_event(transaction, workload, event)

        await self._store.write(write)
        self._mark_changed([workload.uid])

    async def _record_rejection(self, state: WorkloadState, wanted: Sequence[Pod], error: StokerError) -> None:
        """Record that the engine will never start these pods. If none of the workload's pods runs, all are lost."""
        alive = [pod for pod in state.pods if not pod.phase.is_finished]
        running = await self._existing_pods(state.workload, alive)
        message = f"its pods cannot be started: {error.message}"
        event = LaunchRejected(self._clock.now(), message, bool(running))

        def write(transaction: Transaction) -> None:
            pods.set_pending_message(transaction, [pod.uid for pod in wanted if pod.uid not in running], message)
            if not running:
                record_missing_pods(transaction, self._cluster_id, alive, event.at, message)
            _apply_event(transaction, state.workload, event)

        await self._store.write(write)
        self._mark_changed([state.workload.uid])

    async def _existing_pods(self, workload: Workload, candidates: Sequence[Pod]) -> set[str]:
        """The uids of those of these pods that the engine has. It is asked itself, because its report of a new pod may
        still be on the way."""
        uids = {pod.uid for pod in candidates}
        if uids <= self.observed_pods:
            return uids
        return uids & (self.observed_pods | await self._engine.pods_of(workload_ref(workload)))

    async def _terminate(self, workload: Workload, unknown_pods: Sequence[Pod]) -> bool:
        """Ask the engine to terminate the attempt. Returns whether pods that it never had were recorded as ended."""
        grace_seconds = DEFAULT_GRACE_SECONDS if workload.grace_seconds is None else workload.grace_seconds
        force = self._clock.now() >= forced_termination_at(workload)
        request = (workload.attempt, grace_seconds, force)
        if self._terminated.get(workload.uid) == request and not unknown_pods:
            return False
        await self._store.read_inline(assert_leader)
        ref = workload_ref(workload)
        if force:
            log.warning("the pods of workload %s have not ended in time and are removed by force", workload.slug)
        await self._engine.terminate(ref, grace_seconds=grace_seconds, force=force)
        failpoint("controller.removed")
        self._terminated[workload.uid] = request
        existing = await self._engine.pods_of(ref) if unknown_pods else frozenset()
        never = [pod for pod in unknown_pods if pod.uid not in existing]
        return await self._mark_never_started(workload, never, "it was ended before it began")

    async def _mark_never_started(self, workload: Workload, never: Sequence[Pod], message: str) -> bool:
        """Record pods that the engine will never have as ended."""
        if not never:
            return False
        at = self._clock.now()
        await self._store.write(lambda tx: record_missing_pods(tx, self._cluster_id, never, at, message))
        self._mark_changed([workload.uid])
        return True

    async def _release(self, state: WorkloadState) -> None:
        """Collect the rest of the logs of every attempt, then have the engine release the pods."""
        workload, attempt_pods = state.workload, state.pods
        self._applied.pop(workload.uid, None)
        self._terminated.pop(workload.uid, None)
        if workload.deleted_at is not None:
            failpoint("controller.discarding")
            await self._purge(workload)
        if workload.attempt > 1:
            attempt_pods = await self._store.read(lambda tx: pods.of_workload(tx, workload.uid))
        unreleased = [pod for pod in attempt_pods if pod.uid in self.observed_pods]
        if unreleased:
            await self._logs.drain(unreleased)
            failpoint("controller.logs-kept")
            for attempt in sorted({pod.attempt for pod in unreleased}):
                await self._store.read_inline(assert_leader)
                await self._engine.release(structs.replace(workload_ref(workload), attempt=attempt))
            failpoint("controller.forgotten")

    async def _purge(self, workload: Workload) -> None:
        await self._store.read_inline(assert_leader)
        try:
            await self._engine.purge(workload_ref(workload))
        except OSError as error:
            log.warning("the files of deleted workload %s could not be removed: %s", workload.slug, error)


def _apply_event(transaction: Transaction, planned: Workload, event: LifecycleEvent) -> None:
    """Apply the event if the workload is still at the attempt and revision that it was meant for."""
    workload = rows.find(transaction, planned.uid)
    if workload is None or (workload.attempt, workload.revision) != (planned.attempt, planned.revision):
        return
    if (change := transition(workload, event)) is not None:
        transitions.apply(transaction, workload, change)
