"""Reclaimable capacity: what would be free without all preemptible and terminating workloads.

It is an upper bound kept between plans: for a request that does not fit here, no victims are searched.
"""

from collections.abc import Iterable

from stoker.scheduler.capacity.node_free import NOTHING_FREE, NodeFree, release
from stoker.scheduler.capacity.node_index import NodeIndex
from stoker.scheduler.model import AdmittedWorkload
from stoker.scheduler.quota.admitted import PreemptionCandidate, candidate_of, pod_allocations


class ReclaimableCapacity:
    def __init__(self) -> None:
        self.nodes = NodeIndex({}, {}, {})
        self._candidates_by_node: dict[str, dict[str, PreemptionCandidate]] = {}

    def update(self, changed: Iterable[AdmittedWorkload], removed: Iterable[AdmittedWorkload]) -> set[str]:
        """Replace and remove workloads; returns the nodes to refresh."""
        touched: set[str] = set()
        for workload in removed:
            if workload.preemptible or workload.is_terminating:
                for name in workload.nodes:
                    self._candidates_by_node.get(name, {}).pop(workload.uid, None)
                touched.update(workload.nodes)
        for workload in changed:
            if workload.preemptible or workload.is_terminating:
                candidate = candidate_of(workload)
                for name in workload.nodes:
                    self._candidates_by_node.setdefault(name, {})[workload.uid] = candidate
                touched.update(workload.nodes)
        return touched

    def refresh(self, names: Iterable[str], nodes: NodeIndex) -> None:
        """Recompute these nodes."""
        for name in names:
            group = nodes.group_by_node.get(name)
            self.nodes.upsert(name, group, self._reclaim_all(name, nodes.free_by_node[name]) if group else NOTHING_FREE)

    def candidates_on(self, name: str) -> Iterable[PreemptionCandidate]:
        """Preemptible and terminating workloads on this node."""
        return self._candidates_by_node.get(name, {}).values()

    def _reclaim_all(self, name: str, node_free: NodeFree) -> NodeFree:
        for _, workload, _ in self.candidates_on(name):
            for node, device, size in pod_allocations(workload):
                if node == name:
                    node_free = release(node_free, size, device)
        return node_free
