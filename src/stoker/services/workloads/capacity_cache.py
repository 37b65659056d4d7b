"""What the clusters have in all, kept until their nodes change."""

from stoker.scheduler import Capacity
from stoker.store import nodes
from stoker.store.base import Transaction
from stoker.store.nodes import Known

FEW = 1_000


class Capacities:
    def __init__(self) -> None:
        self._known: dict[str, tuple[Known, Capacity]] = {}

    @property
    def quick(self) -> bool:
        """Whether they are soon known again after a node has changed: no cluster has many nodes."""
        return bool(self._known) and all(len(known.nodes) <= FEW for known, _ in self._known.values())

    def of(self, transaction: Transaction, cluster_id: str) -> Capacity:
        before = self._known.get(cluster_id)
        known = nodes.known(transaction, cluster_id, before[0] if before else nodes.NOTHING_KNOWN)
        if before is not None and known is before[0]:
            return before[1]
        capacity = Capacity(known.nodes.values())
        self._known[cluster_id] = known, capacity
        return capacity
