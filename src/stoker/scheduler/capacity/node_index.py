"""An index of nodes by free capacity, which finds the fullest node with enough capacity without a full scan.

Schedulable and unschedulable nodes of a pool are separate groups with one bucket each. Row n of a bucket has the nodes
with n entirely free GPUs, sorted by free CPU, memory and name; shared devices are listed separately.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from stoker.scheduler.capacity.node_free import NOTHING_FREE, NodeFree, node_free_of
from stoker.scheduler.model import NodeInfo

NodeEntry = tuple[int, int, str]
"""Free CPU, free memory and name of a node."""
NodeGroup = tuple[str, bool]
"""The pool of a node, and whether it is schedulable."""


class Bucket:
    """The nodes of one group."""

    __slots__ = ("rows", "shared_devices")

    def __init__(
        self, rows: list[list[NodeEntry]] | None = None, shared_devices: list[tuple[int, str]] | None = None
    ) -> None:
        self.rows = rows or []
        self.shared_devices = shared_devices or []

    def copy(self) -> "Bucket":
        return Bucket([row.copy() for row in self.rows], self.shared_devices.copy())

    def insert(self, name: str, node_free: NodeFree) -> None:
        while len(self.rows) <= node_free.whole_gpus:
            self.rows.append([])
        insort(self.rows[node_free.whole_gpus], (node_free.cpu_milli, node_free.memory_bytes, name))
        for free, _ in node_free.shared_devices:
            insort(self.shared_devices, (free, name))

    def remove(self, name: str, node_free: NodeFree) -> None:
        row = self.rows[node_free.whole_gpus]
        del row[bisect_left(row, (node_free.cpu_milli, node_free.memory_bytes, name))]
        for free, _ in node_free.shared_devices:
            del self.shared_devices[bisect_left(self.shared_devices, (free, name))]


class NodeIndex:
    """The free capacity of every node. Copies share all maps except `free_by_node` and the buckets; those maps are
    replaced, never changed in place."""

    __slots__ = (
        "bucket_by_group",
        "faulty_gpus_by_node",
        "free_by_node",
        "group_by_node",
        "model_by_node",
        "nodes_of_other_models",
    )

    def __init__(
        self, free_by_node: dict[str, NodeFree], groups: dict[str, NodeGroup], buckets: dict[NodeGroup, Bucket]
    ) -> None:
        self.free_by_node = free_by_node
        self.group_by_node = groups
        self.bucket_by_group = buckets
        self.model_by_node: dict[str, str] = {}
        self.nodes_of_other_models: dict[str, frozenset[str]] = {}
        """By GPU model, if there are several: the nodes with another model."""
        self.faulty_gpus_by_node: dict[str, int] = {}

    def copy(self) -> "NodeIndex":
        buckets = {group: bucket.copy() for group, bucket in self.bucket_by_group.items()}
        copied = NodeIndex(self.free_by_node.copy(), self.group_by_node, buckets)
        copied.model_by_node, copied.nodes_of_other_models, copied.faulty_gpus_by_node = (
            self.model_by_node,
            self.nodes_of_other_models,
            self.faulty_gpus_by_node,
        )
        return copied

    def buckets_of_pool(self, pool: str, tolerate_all: bool) -> tuple[Bucket, ...]:
        """The buckets of a pool that a workload may use, schedulable nodes first."""
        groups: Sequence[NodeGroup] = ((pool, True), (pool, False)) if tolerate_all else ((pool, True),)
        return tuple(self.bucket_by_group[group] for group in groups if group in self.bucket_by_group)

    def is_eligible(self, name: str, pool: str, tolerate_all: bool) -> bool:
        group = self.group_by_node.get(name)
        return group is not None and group[0] == pool and (group[1] or tolerate_all)

    def set_free(self, name: str, node_free: NodeFree) -> None:
        bucket = self.bucket_by_group[self.group_by_node[name]]
        bucket.remove(name, self.free_by_node[name])
        bucket.insert(name, node_free)
        self.free_by_node[name] = node_free

    def update(self, changed: Iterable[NodeInfo], removed: Iterable[str]) -> None:
        """Add, replace and remove nodes."""
        self.group_by_node = self.group_by_node.copy()
        models: dict[str, str] = {}
        faulty: dict[str, int] = {}
        for name in removed:
            self.upsert(name, None)
            models[name], faulty[name] = "", 0
        for node in changed:
            self.upsert(node.name, (node.pool, node.is_schedulable), node_free_of(node))
            models[node.name], faulty[node.name] = node.model, node.faulty_gpus
        if any(self.faulty_gpus_by_node.get(name, 0) != gpus for name, gpus in faulty.items()):
            self.faulty_gpus_by_node = {
                name: gpus for name, gpus in {**self.faulty_gpus_by_node, **faulty}.items() if gpus
            }
        if any(self.model_by_node.get(name, "") != model for name, model in models.items()):
            self._set_models({name: model for name, model in {**self.model_by_node, **models}.items() if model})

    def count_faulty_gpus(self, pools: Iterable[str], tolerate_all: bool) -> int:
        """Number of faulty GPUs on the nodes that a workload may use."""
        return sum(
            gpus
            for name, gpus in self.faulty_gpus_by_node.items()
            if any(self.is_eligible(name, pool, tolerate_all) for pool in pools)
        )

    def _set_models(self, models: dict[str, str]) -> None:
        self.model_by_node = models
        distinct = set(models.values())
        self.nodes_of_other_models = {
            model_name: frozenset(name for name, model in models.items() if model != model_name)
            for model_name in (sorted(distinct) if len(distinct) > 1 else ())
        }

    def upsert(self, name: str, group: NodeGroup | None, node_free: NodeFree = NOTHING_FREE) -> None:
        """Move a node to a group, or remove it."""
        before = self.group_by_node.pop(name, None)
        if before is not None:
            self.bucket_by_group[before].remove(name, self.free_by_node.pop(name))
        if group is not None:
            self.group_by_node[name] = group
            self.free_by_node[name] = node_free
            self.bucket_by_group.setdefault(group, Bucket()).insert(name, node_free)
