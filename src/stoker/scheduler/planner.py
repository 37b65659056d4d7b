"""Incremental planning: one plan after each change of a cluster.

Sorted queues, the node index and the admitted workloads are kept between plans; each plan works on copies. The cost of
a plan depends on the workloads it starts and the equivalence classes it tries, not on the number of pending workloads.
A plan after deltas equals a plan from scratch.
"""

from collections.abc import Iterable, Mapping

from msgspec import structs

from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.capacity.node_index import NodeIndex
from stoker.scheduler.capacity.reclaimable import ReclaimableCapacity
from stoker.scheduler.cycle.pending_queue import NEVER, EquivalenceClasses, PendingQueue
from stoker.scheduler.cycle.queue_cursor import QueueCursor
from stoker.scheduler.cycle.reservations import apply_reservations, collect_reservations
from stoker.scheduler.cycle.scheduling_cycle import SchedulingCycle
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.explain.pending import PendingReasons
from stoker.scheduler.model import (
    DependencyFailure,
    NodeInfo,
    PendingWorkload,
    Placement,
    Plan,
    Preemption,
    Snapshot,
    SnapshotDelta,
)
from stoker.scheduler.quota.admitted import AdmittedIndex
from stoker.scheduler.quota.min_runtime import MinRuntime, exempt_until

QUEUE_REBUILD_FRACTION = 8
"""A queue is sorted again if more than one in this many of its workloads change."""
CLASS_CACHE_SLACK = 1000
"""Number of unused equivalence classes that are kept."""


def plan(snapshot: Snapshot) -> Plan:
    """The placements, preemptions, failures and pending reasons for one snapshot."""
    return Planner(snapshot).plan()


class Planner:
    """A cluster indexed for planning."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.now = snapshot.now
        self.nodes = NodeIndex({}, {}, {})
        self.admitted = AdmittedIndex()
        self.reclaimable = ReclaimableCapacity()
        self.pending_queues: dict[int, PendingQueue] = {}
        self.cluster_capacity = NO_RESOURCES
        self._min_runtime = MinRuntime()
        self._capacity_by_node: dict[str, Resources] = {}
        self._workspace_by_uid: dict[str, int] = {}
        self._failed_dependencies: dict[str, str] = {}
        self._equivalence_classes: EquivalenceClasses = {}
        self.update(
            SnapshotDelta(
                now=snapshot.now,
                pending=snapshot.pending,
                admitted=snapshot.admitted,
                nodes=snapshot.nodes,
                queues=snapshot.queues,
            )
        )

    def replan(self, delta: SnapshotDelta) -> Plan:
        """Apply a delta and plan again."""
        self.update(delta)
        return self.plan()

    def plan(self) -> Plan:
        cycle = self.new_cycle(self.pending_queues)
        cycle.run()
        return Plan(
            tuple(
                Placement(uid, nodes, exempt_until(cycle.state, self.pending_workload(uid), self.now))
                for uid, nodes in cycle.state.started.items()
            ),
            tuple(Preemption(uid, preemptor_uid) for uid, preemptor_uid in cycle.state.preemptor_by_victim.items()),
            tuple(DependencyFailure(uid, dependency) for uid, dependency in sorted(self._failed_dependencies.items())),
            PendingReasons(cycle, self.now),
            dict(collect_reservations(cycle.state, cycle.cursors)),
        )

    def new_cycle(self, pending_queues: Mapping[int, PendingQueue]) -> SchedulingCycle:
        """A cycle over these queues that has not run yet."""
        state = CycleState(self.nodes, self.admitted, self.reclaimable, self.cluster_capacity)
        cursors = {
            workspace_id: QueueCursor(
                pending_queues[workspace_id], self.admitted.queue_of(workspace_id), state.usage_by_queue[workspace_id]
            )
            for workspace_id in sorted(pending_queues)
        }
        apply_reservations(state, cursors)
        return SchedulingCycle(state, cursors)

    @property
    def next_event_at(self) -> int | None:
        """The next start time or end of a guaranteed runtime; no plan changes before it without a delta."""
        due = min((pending_queue.next_eligible_at for pending_queue in self.pending_queues.values()), default=NEVER)
        due = min(due, self._min_runtime.next_expiry)
        return None if due == NEVER else due

    def pending_workload(self, uid: str) -> PendingWorkload:
        pending_queue = self.pending_queues[self._workspace_by_uid[uid]]
        return pending_queue.workloads[pending_queue.index_of(uid)]

    def queues_with_edit(self, edited: PendingWorkload) -> Mapping[int, PendingQueue]:
        """The queues with one workload changed and its reservation dropped."""
        edited = structs.replace(edited, reserved_nodes=())
        pending_queue = self.pending_queues[edited.workspace_id]
        return {
            **self.pending_queues,
            edited.workspace_id: pending_queue.with_changes({edited.uid: edited}, (), self._equivalence_classes),
        }

    def update(self, delta: SnapshotDelta) -> None:
        """Apply a delta."""
        self.now = delta.now
        if delta.nodes or delta.removed_nodes:
            self.nodes.update(delta.nodes, delta.removed_nodes)
            self._update_capacity(delta.nodes, delta.removed_nodes)
        self.admitted.update_queues(delta.queues, delta.removed_queues)
        admitted = self._min_runtime.update(delta.admitted, delta.no_longer_admitted, delta.now)
        before = self.admitted.update(admitted, delta.no_longer_admitted)
        touched_nodes = self.reclaimable.update(admitted, before)
        self.reclaimable.refresh(
            {*touched_nodes, *(node.name for node in delta.nodes), *delta.removed_nodes}, self.nodes
        )
        if len(self._equivalence_classes) > 2 * len(self._workspace_by_uid) + CLASS_CACHE_SLACK:
            self._equivalence_classes = {}  # a class that exists twice is only tried twice
        self._update_queues(delta.pending, delta.no_longer_pending)
        self._rebuild_stale_queues()

    def _update_capacity(self, changed: Iterable[NodeInfo], removed: Iterable[str]) -> None:
        for name in removed:
            self.cluster_capacity -= self._capacity_by_node.pop(name, NO_RESOURCES)
        for node in changed:
            self.cluster_capacity += node.capacity - self._capacity_by_node.get(node.name, NO_RESOURCES)
            self._capacity_by_node[node.name] = node.capacity

    def _update_queues(self, workloads: Iterable[PendingWorkload], removed_uids: Iterable[str]) -> None:
        added: dict[int, dict[str, PendingWorkload]] = {}
        removed: dict[int, set[str]] = {}
        for uid in removed_uids:
            self._remove_workload(uid, removed)
        for workload in workloads:
            self._remove_workload(workload.uid, removed)
            if workload.failed_dependency:
                self._failed_dependencies[workload.uid] = workload.failed_dependency
            else:
                self._workspace_by_uid[workload.uid] = workload.workspace_id
                eligible = workload if workload.node_pools else structs.replace(workload, node_pools=(DEFAULT_POOL,))
                added.setdefault(workload.workspace_id, {})[workload.uid] = eligible
        for workspace_id in {*added, *removed}:
            self._update_queue(workspace_id, added.get(workspace_id, {}), removed.get(workspace_id, set()))

    def _remove_workload(self, uid: str, removed: dict[int, set[str]]) -> None:
        self._failed_dependencies.pop(uid, None)
        workspace_id = self._workspace_by_uid.pop(uid, None)
        if workspace_id is not None:
            removed.setdefault(workspace_id, set()).add(uid)

    def _update_queue(self, workspace_id: int, added: Mapping[str, PendingWorkload], removed: set[str]) -> None:
        self.admitted.usage_of(workspace_id)
        old = self.pending_queues.get(workspace_id)
        if old is None or (len(added) + len(removed)) * QUEUE_REBUILD_FRACTION > len(old.sort_keys):
            kept = [workload for workload in old.workloads if workload.uid not in removed] if old else []
            self.pending_queues[workspace_id] = self._build_queue(workspace_id, [*kept, *added.values()])
        else:
            self.pending_queues[workspace_id] = old.with_changes(added, removed, self._equivalence_classes)

    def _rebuild_stale_queues(self) -> None:
        """Rebuild queues in which a start time has come or whose preemption policy has changed."""
        for workspace_id, pending_queue in self.pending_queues.items():
            if not pending_queue.is_current(self.now, self.admitted.queue_of(workspace_id).preemption):
                self.pending_queues[workspace_id] = self._build_queue(workspace_id, pending_queue.workloads)

    def _build_queue(self, workspace_id: int, workloads: Iterable[PendingWorkload]) -> PendingQueue:
        return PendingQueue(
            workloads, self.now, self.admitted.queue_of(workspace_id).preemption, self._equivalence_classes
        )
