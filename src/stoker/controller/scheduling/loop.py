"""The scheduling loop: updates the cluster cache, plans, stores the plan, and returns what was dispatched.

The cache and the planner are kept from cycle to cycle. A decision is stored only if its workload is still at the
version that was planned, and a placement only if its nodes have not changed.
"""

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stoker.concurrency.failpoints import failpoint
from stoker.controller.reconcile.delegated import submit_pending
from stoker.controller.reconcile.status import WorkloadState
from stoker.controller.scheduling.devices import DeviceAllocator
from stoker.controller.scheduling.dispatch import Assignment, dispatch
from stoker.controller.scheduling.pending_reasons import PendingReasonWriter
from stoker.domain.clock import Clock
from stoker.domain.cluster.capabilities import Owner
from stoker.domain.names import RandomBytes
from stoker.domain.workload.display_names import display_names_for
from stoker.domain.workload.events import DependencyFailed, LifecycleEvent, NodesReserved, Preempted
from stoker.domain.workload.lifecycle import transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import StatusReason
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.placement import missing_ranks
from stoker.domain.workload.pod import Pod
from stoker.scheduler import Plan, Planner, SnapshotDelta
from stoker.scheduler.cache import ClusterCache
from stoker.store.cluster import nodes
from stoker.store.cluster.state import UNREAD, read_delta, read_state_with_version
from stoker.store.db.base import Store, Transaction, reader_for, writer_for
from stoker.store.workloads import rows, transitions

REPLAN_MS = 200
"""After how long a cycle is repeated whose decisions were out of date."""
EMPTY_PLAN = Plan((), (), (), {})
MAX_INLINE_PENDING = 500
"""With more pending workloads than this, the planner runs in a thread."""


class CycleResult(Struct, frozen=True):
    """What a scheduling cycle changed, and when the next one is due without a change."""

    started: Mapping[str, WorkloadState] = {}
    """Workloads with a new attempt, and its pods."""
    changed: tuple[str, ...] = ()
    """Other workloads that changed."""
    next_at: int | None = None
    has_new_reasons: bool = False
    """Whether pending reasons were written."""


class SchedulingLoop:
    def __init__(
        self, store: Store, cluster_id: str, clock: Clock, randomness: RandomBytes, admission: Owner = Owner.STOKER
    ) -> None:
        self._admission = admission
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._randomness = randomness
        self._changed: dict[str, str] = {}
        self._state_version = UNREAD
        self._planning: tuple[ClusterCache, Planner] | None = None
        self._pending_reasons = PendingReasonWriter()
        self._orphans: Sequence[Pod] = ()

    def mark_changed(self, uid: str, slug: str = "") -> None:
        """A workload or one of its pods has changed. Workloads that depend on it refer to its slug."""
        self._changed[uid] = slug or self._changed.get(uid, "")

    def has_dependents(self, uid: str, slug: str) -> bool:
        """Whether a workload of this cluster depends on this one, which may belong to another cluster."""
        return self._planning is None or bool(self._planning[0].awaited_dependencies({uid: slug}))

    def invalidate(self) -> None:
        """Have the next cycle read everything."""
        self._planning = None

    def exclude_orphans(self, orphans: Sequence[Pod]) -> None:
        """Exclude the nodes' resources that these pods hold, and do not start the workloads they belong to."""
        self._orphans = orphans
        self.invalidate()

    async def run_cycle(self) -> CycleResult:
        """Plan once over all pending workloads, and store the decisions. An engine that admits workloads by itself gets
        all of them."""
        if self._admission is Owner.ENGINE:
            now = self._clock.now()
            submitted = await self._store.write(lambda tx: submit_pending(tx, self._cluster_id, now))
            return CycleResult(changed=tuple(submitted))
        try:
            return await self._run_cycle()
        except BaseException:
            self.invalidate()
            raise

    async def _run_cycle(self) -> CycleResult:
        now = self._clock.now()
        cache, planner = await self.refresh(now)
        if not cache.pending:
            plan = EMPTY_PLAN
        else:
            plan = await asyncio.to_thread(planner.plan) if len(cache.pending) > MAX_INLINE_PENDING else planner.plan()
        reasons = self._pending_reasons.changed_reasons(cache, plan, now)
        dispatched: Mapping[str, WorkloadState] = {}
        changed: list[str] = []
        events = plan_events(cache, plan, now)
        if plan.placements or events or reasons:
            pods = sum(len(each.nodes) for each in plan.placements)
            write = writer_for(self._store, pods + len(events) + len(reasons))
            dispatched, changed = await write(lambda tx: self._write(tx, cache, plan, events, reasons, now))
        self._pending_reasons.mark_written(cache, reasons)
        if dispatched or changed:
            failpoint("controller.dispatched")
        decided = {each.uid for each in plan.placements} | events.keys()
        for uid in decided:
            self.mark_changed(uid)
        due = [at for at in (planner.next_event_at, self._pending_reasons.next_at(now)) if at is not None]
        if decided - dispatched.keys() - set(changed):  # some decisions were out of date
            due.append(now + REPLAN_MS)
        return CycleResult(dispatched, tuple(changed), min(due, default=None), bool(reasons))

    async def refresh(self, now: int) -> tuple[ClusterCache, Planner]:
        """Bring the cache and the planner up to date."""
        changed_slugs, self._changed = self._changed, {}
        if self._planning is None:
            cluster, self._state_version = await self._store.read(
                lambda tx: read_state_with_version(tx, self._cluster_id, self._state_version)
            )
            cache = ClusterCache(cluster, self._orphans)
            self._planning = cache, Planner(cache.snapshot(now))
            self._pending_reasons.reset()
            return self._planning
        cache, planner = self._planning
        awaited = cache.awaited_dependencies(changed_slugs)
        read = reader_for(self._store, len(changed_slugs) + len(awaited))
        found, self._state_version = await read(
            lambda tx: read_delta(tx, self._cluster_id, changed_slugs.keys(), awaited, self._state_version)
        )
        woken = planner.next_event_at is not None and planner.next_event_at <= now
        change = cache.update(found, now)
        planner.update(change)
        if woken or change != SnapshotDelta(now=now):
            self._pending_reasons.mark_pending((each.uid for each in change.pending), change.no_longer_pending)
        return self._planning

    def _write(
        self,
        transaction: Transaction,
        cache: ClusterCache,
        plan: Plan,
        events: Mapping[str, LifecycleEvent],
        reasons: Mapping[str, StatusReason],
        now: int,
    ) -> tuple[Mapping[str, WorkloadState], list[str]]:
        starts = []
        current = nodes.refresh_cache(transaction, self._cluster_id, self._state_version.node_cache).nodes
        for placement in plan.placements:
            if any(current.get(name) is not cache.nodes.get(name) for name in placement.nodes):
                continue  # the node has changed since the plan was made: it may have a faulty GPU now
            workload = cache.workloads[placement.uid]
            ranks = missing_ranks(workload, cache.pods.get(placement.uid, ()), cache.nodes)
            starts.append(Assignment(workload, ranks, placement.nodes, placement.guaranteed_until))
        dispatched = dispatch(transaction, self._cluster_id, DeviceAllocator(cache), starts, now, self._randomness)
        changed = _apply_events(transaction, cache, events)
        rows.set_pending_reasons(transaction, reasons)
        return dispatched, changed


def plan_events(cache: ClusterCache, plan: Plan, now: int) -> dict[str, LifecycleEvent]:
    """The lifecycle events of a plan, apart from placements."""
    events: dict[str, LifecycleEvent] = {}
    for uid, reserved in plan.reservations.items():
        if cache.workloads[uid].reserved_nodes != reserved:
            events[uid] = NodesReserved(now, reserved)
    for preemption in plan.preemptions:
        winner = display_names_for(cache.workloads[preemption.uid], cache.workloads)[preemption.preemptor_uid]
        events[preemption.uid] = Preempted(now, winner)
    for failure in plan.failures:
        events[failure.uid] = DependencyFailed(now, failure.message)
    return events


def _apply_events(transaction: Transaction, cache: ClusterCache, events: Mapping[str, LifecycleEvent]) -> list[str]:
    """Apply events to those workloads that have not changed since the plan was made."""
    present = rows.by_uid(transaction, events.keys())
    changes: list[tuple[Workload, Transition]] = []
    for uid, event in events.items():
        workload = present.get(uid)
        if workload is None or workload.version != cache.workloads[uid].version:
            continue
        if (change := transition(workload, event)) is not None:
            changes.append((workload, change))
    transitions.apply_all(transaction, changes)
    return [workload.uid for workload, _ in changes]
