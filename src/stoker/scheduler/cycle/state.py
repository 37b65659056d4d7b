"""The state of a scheduling cycle: free capacity now and after terminations, reservations, and quota usage.

Capacity that is reserved in `future_idle` is not given away in `idle`. Both only shrink, except that a preemption adds
to `future_idle`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from copy import copy
from enum import Enum

from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.capacity.node_free import allocate, choose_shared_device, intersect, release
from stoker.scheduler.capacity.node_index import NodeIndex
from stoker.scheduler.capacity.reclaimable import ReclaimableCapacity
from stoker.scheduler.capacity.unschedulable import UnschedulableCache
from stoker.scheduler.model import AdmittedWorkload, PendingWorkload
from stoker.scheduler.quota.admitted import (
    AdmittedIndex,
    PreemptionCandidates,
    allocated_resources,
    candidate_of,
    pod_allocations,
)


class Horizon(Enum):
    """Free now; free once all terminating pods are gone; free if all preemptible workloads were gone too."""

    IDLE = 0
    FUTURE_IDLE = 1
    RECLAIMABLE = 2


class CycleState:
    def __init__(
        self, nodes: NodeIndex, admitted_index: AdmittedIndex, reclaimable: ReclaimableCapacity, cluster: Resources
    ) -> None:
        self.idle = nodes.copy()
        self.future_idle = self.idle
        self.admitted = admitted_index
        self.reclaimable = reclaimable
        self.cluster_capacity = cluster
        self.usage_by_queue = {
            workspace_id: usage.copy() for workspace_id, usage in admitted_index.usage_by_queue.items()
        }
        self.candidates_by_queue = admitted_index.candidates_by_queue.copy()
        self.terminating_by_node: dict[str, set[str]] = {}
        self.terminating: dict[int, set[str]] = {}
        self.started: dict[str, tuple[str, ...]] = {}
        self.preemptor_by_victim: dict[str, str] = {}
        self.new_reservations: dict[str, tuple[tuple[str, ...], bool]] = {}
        self.kept_reservations: dict[str, tuple[str, ...]] = {}
        """Reserved nodes of workloads that the cycle has not reached yet."""
        self.started_over_quota: set[str] = set()
        """Workloads that this cycle started over quota."""
        self._contended: tuple[set[str], set[str]] = (set(), set())
        """The pools and the nodes for which an in-quota workload is pending."""
        self.unschedulable = UnschedulableCache()
        self._in_queue_candidates: dict[tuple[int, int], tuple[PreemptionCandidates, Resources]] = {}
        self._over_quota_candidates: dict[int, PreemptionCandidates] | None = None
        self._nodes_by_uid: dict[str, tuple[str, ...]] = {}
        self._last_device_id = -(1 << 20)
        for admitted in admitted_index.terminating.values():
            self._release_later(admitted)

    def copy(self) -> "CycleState":
        """An independent copy that can continue differently."""
        clone = copy(self)
        clone.idle = self.idle.copy()
        clone.future_idle = clone.idle if self.future_idle is self.idle else self.future_idle.copy()
        clone.usage_by_queue = {workspace_id: copy(usage) for workspace_id, usage in self.usage_by_queue.items()}
        clone.candidates_by_queue = {
            workspace_id: candidates.copy() for workspace_id, candidates in self.candidates_by_queue.items()
        }
        clone.terminating_by_node = {name: uids.copy() for name, uids in self.terminating_by_node.items()}
        clone.terminating = {workspace_id: uids.copy() for workspace_id, uids in self.terminating.items()}
        clone.started, clone.preemptor_by_victim = self.started.copy(), self.preemptor_by_victim.copy()
        clone.new_reservations, clone.unschedulable = self.new_reservations.copy(), self.unschedulable.copy()
        clone.kept_reservations = self.kept_reservations.copy()
        clone.started_over_quota, clone._contended = (
            self.started_over_quota.copy(),
            (self._contended[0].copy(), self._contended[1].copy()),
        )
        clone._in_queue_candidates, clone._nodes_by_uid, clone._over_quota_candidates = (
            self._in_queue_candidates.copy(),
            self._nodes_by_uid.copy(),
            None,
        )
        return clone

    def nodes_at(self, horizon: Horizon) -> NodeIndex:
        match horizon:
            case Horizon.IDLE:
                return self.idle
            case Horizon.FUTURE_IDLE:
                return self.future_idle
            case Horizon.RECLAIMABLE:
                return self.reclaimable.nodes

    def required_nodes(self, workload: PendingWorkload) -> tuple[str, ...]:
        """The specified nodes, as many as pods are missing; nodes without a pod of the workload come first."""
        names = workload.specified_nodes
        if len(names) <= workload.replicas:
            return names
        if workload.uid not in self._nodes_by_uid:
            admitted = self.admitted.workloads.get(workload.uid)
            occupied = set(admitted.nodes) if admitted else set()
            self._nodes_by_uid[workload.uid] = tuple(sorted(names, key=occupied.__contains__)[: workload.replicas])
        return self._nodes_by_uid[workload.uid]

    def in_queue_candidates(self, workspace_id: int, priority: int) -> tuple[PreemptionCandidates, Resources]:
        """Preemption candidates of a workspace for its own workload of this priority, and their total allocation."""
        key = (workspace_id, priority)
        if key not in self._in_queue_candidates:
            candidates = (
                self.candidates_by_queue.get(workspace_id, [])
                if self.admitted.queue_of(workspace_id).preemption
                else []
            )
            lower_priority = candidates[
                : bisect_left(candidates, priority, key=lambda candidate: candidate[1].priority)
            ]
            self._in_queue_candidates[key] = (
                lower_priority,
                sum((allocated for _, _, allocated in lower_priority), NO_RESOURCES),
            )
        return self._in_queue_candidates[key]

    def reclaim_candidates(self, workspace_id: int) -> dict[int, PreemptionCandidates]:
        """Preemptible workloads of other workspaces that are over quota."""
        if self._over_quota_candidates is None:
            self._over_quota_candidates = {
                other: candidates
                for other, candidates in self.candidates_by_queue.items()
                if candidates and self.usage_by_queue[other].is_over_quota
            }
        return {other: candidates for other, candidates in self._over_quota_candidates.items() if other != workspace_id}

    def start(self, workload: PendingWorkload, nodes: Sequence[str]) -> None:
        """Allocate capacity to a workload that starts now."""
        pod_request = workload.pod_request
        for name, pods in Counter(nodes).items():
            idle, future = self.idle.free_by_node[name], self.future_idle.free_by_node[name]
            for _ in range(pods):
                device = choose_shared_device(idle, pod_request, self._new_device_id())
                idle, future = allocate(idle, pod_request, device), allocate(future, pod_request, device)
            self.idle.set_free(name, idle)
            if self.future_idle is not self.idle:
                self.future_idle.set_free(name, future)
        self.started[workload.uid] = tuple(nodes)
        self.usage_by_queue[workload.workspace_id].charge(pod_request * workload.replicas)

    def keep_reservation(self, workload: PendingWorkload) -> None:
        """Hold the capacity of its reserved nodes until the cycle reaches it."""
        self._hold_capacity(workload, workload.reserved_nodes)
        self.kept_reservations[workload.uid] = workload.reserved_nodes

    def reserved_nodes(self, uid: str) -> tuple[str, ...]:
        return self.new_reservations[uid][0] if uid in self.new_reservations else self.kept_reservations.get(uid, ())

    def reserve_nodes(self, workload: PendingWorkload, nodes: Sequence[str]) -> None:
        """Reserve capacity for a workload that starts once others have terminated."""
        if self.kept_reservations.pop(workload.uid, None) is None:
            self._hold_capacity(workload, nodes)
        usage, requested = self.usage_by_queue[workload.workspace_id], workload.pod_request * workload.replicas
        self.new_reservations[workload.uid] = (tuple(nodes), usage.fits(requested))
        usage.charge(requested)

    def _hold_capacity(self, workload: PendingWorkload, nodes: Sequence[str]) -> None:
        pod_request = workload.pod_request
        for name, pods in Counter(nodes).items():
            future = self.future_idle.free_by_node[name]
            for _ in range(pods):
                future = allocate(future, pod_request, choose_shared_device(future, pod_request, self._new_device_id()))
            self.future_idle.set_free(name, future)
            self.idle.set_free(name, intersect(self.idle.free_by_node[name], future))

    def mark_contended(self, workload: PendingWorkload) -> None:
        """Record where an in-quota workload finds no capacity."""
        pools, nodes = self._contended
        nodes.update(workload.specified_nodes)
        pools.update(() if workload.specified_nodes else workload.node_pools)

    def is_contended(self, node: str) -> bool:
        """Whether an in-quota workload is pending for this node."""
        pools, nodes = self._contended
        return node in nodes or self.idle.group_by_node[node][0] in pools

    def awaited_victims(self, workload: PendingWorkload) -> tuple[str, ...]:
        """Terminating workloads that a reservation waits for: those on its nodes and, if its workspace has no quota
        left, those of its workspace."""
        nodes, within_quota = self.new_reservations[workload.uid]
        found = {uid for name in nodes for uid in self.terminating_by_node.get(name, ())}
        if not within_quota:
            found.update(self.terminating.get(workload.workspace_id, ()))
        return tuple(sorted(found))

    def preempt(self, victim: AdmittedWorkload, for_uid: str) -> None:
        """Preempt a workload: its capacity is free once it has terminated."""
        self.preemptor_by_victim[victim.uid] = for_uid
        allocated, workspace_id = allocated_resources(victim), victim.workspace_id
        self.usage_by_queue[workspace_id].used_after_termination -= allocated
        candidates = self.candidates_by_queue[workspace_id]
        if candidates is self.admitted.candidates_by_queue[workspace_id]:
            candidates = self.candidates_by_queue[workspace_id] = candidates.copy()
        del candidates[bisect_left(candidates, candidate_of(victim))]
        self._in_queue_candidates.clear()
        self._over_quota_candidates = None
        self._release_later(victim)
        self.unschedulable.invalidate(Horizon.FUTURE_IDLE)

    def _release_later(self, admitted: AdmittedWorkload) -> None:
        if self.future_idle is self.idle:
            self.future_idle = self.idle.copy()
        self.terminating.setdefault(admitted.workspace_id, set()).add(admitted.uid)
        for name, device, size in pod_allocations(admitted):
            if name in self.future_idle.free_by_node:
                self.future_idle.set_free(name, release(self.future_idle.free_by_node[name], size, device))
                self.terminating_by_node.setdefault(name, set()).add(admitted.uid)

    def _new_device_id(self) -> int:
        self._last_device_id -= 1
        return self._last_device_id
