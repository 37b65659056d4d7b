"""Counts how many replicas of a gang would fit in a pool, or on its specified nodes, if candidates were evicted."""

from collections.abc import Sequence

from stoker.scheduler.capacity.node_free import NodeFree, allocate, fit_count, release
from stoker.scheduler.cycle.pending_queue import EquivalenceClass
from stoker.scheduler.cycle.state import CycleState
from stoker.scheduler.model import AdmittedWorkload
from stoker.scheduler.placement.packing import count_fits, feasible_nodes
from stoker.scheduler.quota.admitted import pod_allocations


class PreemptionDryRun:
    """A simulated eviction. The count is exact because the replicas are identical.

    With `ignore_preemptibility`, workloads that may not be preempted can be evicted too.
    """

    def __init__(
        self,
        state: CycleState,
        equivalence_class: EquivalenceClass,
        pool: str,
        required_nodes: Sequence[str],
        ignore_preemptibility: bool = False,
    ) -> None:
        self.state = state
        self.equivalence_class = equivalence_class
        self.pool = pool
        self.required_nodes = required_nodes
        self.ignore_preemptibility = ignore_preemptibility
        self._free_by_node: dict[str, NodeFree] = {}
        self._helpful: dict[str, bool] = {}
        if required_nodes:
            self.fitting_replicas = sum(
                self._count_fits(state.future_idle.free_by_node[name])
                for name in required_nodes
                if self._is_eligible(name)
            )
        else:
            buckets = state.future_idle.buckets_of_pool(pool, equivalence_class.tolerate_all)
            self.fitting_replicas = count_fits(
                state.future_idle, buckets, equivalence_class.pod_request, equivalence_class.replicas
            )

    @property
    def is_satisfied(self) -> bool:
        return self.fitting_replicas >= self.equivalence_class.replicas

    def evict(self, admitted: AdmittedWorkload) -> bool:
        """Evict a workload; returns whether it frees capacity on an eligible node."""
        useful = False
        for name, device, size in pod_allocations(admitted):
            if self._is_helpful(name):
                node_free = self._free_on(name)
                self._update(name, node_free, release(node_free, size, device))
                useful = True
        return useful

    def reprieve(self, admitted: AdmittedWorkload) -> None:
        for name, device, size in pod_allocations(admitted):
            if self._is_helpful(name):
                node_free = self._free_on(name)
                self._update(name, node_free, allocate(node_free, size, device))

    def helpful_nodes(self, limit: int) -> list[str] | None:
        """The nodes where evictions help; None if there are more than `limit`."""
        if self.required_nodes:
            return [name for name in self.required_nodes if self._is_helpful(name)]
        names: list[str] = []
        for bucket in self.state.reclaimable.nodes.buckets_of_pool(self.pool, self.equivalence_class.tolerate_all):
            for name in feasible_nodes(bucket, self.equivalence_class.pod_request):
                if self._is_helpful(name):
                    names.append(name)
                    if len(names) > limit:
                        return None
        return names

    def _is_helpful(self, name: str) -> bool:
        """Whether a pod may run on this node and would fit after enough evictions."""
        is_helpful = self._helpful.get(name)
        if is_helpful is None:
            reclaimable = self.state.reclaimable.nodes.free_by_node
            is_helpful = self._is_eligible(name) and (
                self.ignore_preemptibility or fit_count(reclaimable[name], self.equivalence_class.pod_request) > 0
            )
            self._helpful[name] = is_helpful
        return is_helpful

    def _is_eligible(self, name: str) -> bool:
        group = self.state.idle.group_by_node.get(name)
        if group is None or not (group[1] or self.equivalence_class.tolerate_all):
            return False
        return name in self.required_nodes if self.required_nodes else group[0] == self.pool

    def _free_on(self, name: str) -> NodeFree:
        return self._free_by_node.get(name) or self.state.future_idle.free_by_node[name]

    def _update(self, name: str, before: NodeFree, after: NodeFree) -> None:
        self.fitting_replicas += self._count_fits(after) - self._count_fits(before)
        self._free_by_node[name] = after

    def _count_fits(self, node_free: NodeFree) -> int:
        return min(
            fit_count(node_free, self.equivalence_class.pod_request),
            1 if self.required_nodes else self.equivalence_class.replicas,
        )
