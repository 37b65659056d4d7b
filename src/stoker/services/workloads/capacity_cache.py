"""Cache of the total capacity of each cluster, valid until its nodes change."""

from stoker.scheduler import ClusterCapacity
from stoker.store.cluster import nodes
from stoker.store.cluster.nodes import NodeCache
from stoker.store.db.base import Transaction

MAX_INLINE_NODES = 1_000


class CapacityCache:
    def __init__(self) -> None:
        self._entries: dict[str, tuple[NodeCache, ClusterCapacity]] = {}

    @property
    def is_inline(self) -> bool:
        """Whether every cluster is small enough to recompute its capacity in the event loop."""
        return bool(self._entries) and all(
            len(node_cache.nodes) <= MAX_INLINE_NODES for node_cache, _ in self._entries.values()
        )

    def get(self, transaction: Transaction, cluster_id: str) -> ClusterCapacity:
        cached = self._entries.get(cluster_id)
        node_cache = nodes.refresh_cache(transaction, cluster_id, cached[0] if cached else nodes.EMPTY_NODE_CACHE)
        if cached is not None and node_cache is cached[0]:
            return cached[1]
        capacity = ClusterCapacity(node_cache.nodes.values())
        self._entries[cluster_id] = node_cache, capacity
        return capacity
