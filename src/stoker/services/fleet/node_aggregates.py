"""What nodes have, hold and use now, added up for groups of them."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.identity import Cluster
from stoker.domain.listing import Window
from stoker.domain.live import NodeNow
from stoker.domain.pod_samples import PodMetric, PodSource
from stoker.domain.resources import MILLI
from stoker.services.context import Context
from stoker.services.grids import NodeGpus, NodeQuery
from stoker.services.live import Live
from stoker.store import pod_samples, pods
from stoker.store.base import Transaction

LONG_IDLE_MS = 300_000
"""GPUs that have been idle for longer than this count as such."""
KEPT_MS = 300_000
"""What was measured longer ago says nothing of now."""
WHOLE = 1 << 31
NO_GPUS = NodeGpus()


class NodeAmount(StrEnum):
    GPU_NODES = "gpu_nodes"
    READY_GPU_NODES = "ready_gpu_nodes"
    FREE_GPU_NODES = "free_gpu_nodes"
    """Ready, and none of their GPUs is held."""
    GPUS = "gpus"
    READY_GPUS = "ready_gpus"
    ALLOCATED_GPUS = "allocated_gpus"
    FREE_GPUS = "free_gpus"
    IDLE_GPUS = "idle_gpus"
    """Held, and not used for long."""
    GPU_MEMORY = "gpu_memory"
    GPU_MEMORY_USED = "gpu_memory_used"
    CPUS = "cpus"
    ALLOCATED_CPUS = "allocated_cpus"
    USED_CPUS = "used_cpus"
    """By pods; what else runs on a node is not counted."""
    MEMORY = "memory"
    ALLOCATED_MEMORY = "allocated_memory"
    USED_MEMORY = "used_memory"


class NodeGrouping(StrEnum):
    CLUSTER = "cluster"
    POOL = "pool"
    NODE = "node"


class NodeSum(Struct, frozen=True):
    """The values of the groups, in their order, with the names of those that have another one."""

    amount: float
    groups: tuple[tuple[str, str], ...] = ()


Place = tuple[str, str]
"""A cluster and a node of it."""
Amount = Callable[[NodeNow, NodeGpus], float]
AMOUNTS: Mapping[NodeAmount, Amount] = {
    NodeAmount.GPU_NODES: lambda node, _: node.gpus > 0,
    NodeAmount.READY_GPU_NODES: lambda node, _: node.gpus > 0 and _ready(node),
    NodeAmount.FREE_GPU_NODES: lambda node, _: node.gpus > 0 and _ready(node) and not node.allocated_milli,
    NodeAmount.GPUS: lambda node, _: node.gpus,
    NodeAmount.READY_GPUS: lambda node, _: node.gpus if _ready(node) else 0,
    NodeAmount.ALLOCATED_GPUS: lambda node, _: node.allocated_milli / MILLI,
    NodeAmount.FREE_GPUS: lambda node, _: node.gpus - node.allocated_milli / MILLI if _ready(node) else 0,
    NodeAmount.IDLE_GPUS: lambda _, gpus: gpus.idle_milli / MILLI,
    NodeAmount.GPU_MEMORY: lambda _, gpus: gpus.memory_bytes,
    NodeAmount.GPU_MEMORY_USED: lambda _, gpus: gpus.used_bytes,
    NodeAmount.CPUS: lambda node, _: node.cpu_milli / MILLI,
    NodeAmount.ALLOCATED_CPUS: lambda node, _: node.cpu_allocated_milli / MILLI,
    NodeAmount.MEMORY: lambda node, _: node.memory_bytes,
    NodeAmount.ALLOCATED_MEMORY: lambda node, _: node.memory_allocated_bytes,
}
OF_PODS = {NodeAmount.USED_CPUS: (PodMetric.CPU_MILLI, MILLI), NodeAmount.USED_MEMORY: (PodMetric.MEMORY_BYTES, 1)}
"""What is measured of pods, and in which parts of one."""
OF_GPUS = frozenset({NodeAmount.IDLE_GPUS, NodeAmount.GPU_MEMORY, NodeAmount.GPU_MEMORY_USED})


class NodeTotals:
    def __init__(self, context: Context, live: Live) -> None:
        self._context = context
        self._live = live

    async def read(
        self, amount: NodeAmount, by: Sequence[NodeGrouping], cluster: str = "", pool: str = ""
    ) -> tuple[list[NodeSum], int]:
        """By the values of the groups; and when that was."""
        wanted = (await self._live.clusters(cluster))[0].cluster.id if cluster else ""
        nodes = await self._live.nodes()
        now = self._context.clock.now()
        amounts = await self._amounts(amount, now)
        found = nodes.browse(NodeQuery(cluster_id=wanted, pool=pool), Window(0, WHOLE)).items
        sums: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
        if not by:
            sums[()] = 0.0
        for where, node in found:
            groups = tuple(_group(each, where, node) for each in by)
            sums[groups] += amounts(where, node)
        return [NodeSum(total, groups) for groups, total in sorted(sums.items())], now

    async def _amounts(self, amount: NodeAmount, now: int) -> Callable[[Cluster, NodeNow], float]:
        """What is to be added up of each node."""
        if amount in OF_PODS:
            clusters = [each.cluster.id for each in await self._live.clusters()]
            used = await self._context.store.read(lambda tx: _used(tx, clusters, amount, now - KEPT_MS))
            return lambda cluster, node: used.get((cluster.id, node.name), 0.0)
        gpus: Mapping[Place, NodeGpus] = {}
        if amount in OF_GPUS:
            grid = await self._live.gpus()
            gpus = await asyncio.to_thread(grid.by_node, now - LONG_IDLE_MS)
        return lambda cluster, node: AMOUNTS[amount](node, gpus.get((cluster.id, node.name), NO_GPUS))


def _used(transaction: Transaction, clusters: Sequence[str], amount: NodeAmount, from_at: int) -> dict[Place, float]:
    """What pods were last seen to take of each node."""
    metric, unit = OF_PODS[amount]
    sums: dict[Place, float] = defaultdict(float)
    for cluster_id in clusters:
        places = pods.held_on(transaction, cluster_id)
        for uid, values in pod_samples.newest(transaction, cluster_id, PodSource.USE, from_at).items():
            if uid in places:
                sums[cluster_id, places[uid]] += values.get(metric, 0.0) / unit
    return sums


def _group(by: NodeGrouping, cluster: Cluster, node: NodeNow) -> tuple[str, str]:
    match by:
        case NodeGrouping.CLUSTER:
            return cluster.id, cluster.name
        case NodeGrouping.POOL:
            return node.pool, ""
        case NodeGrouping.NODE:
            return node.name, ""


def _ready(node: NodeNow) -> bool:
    return node.ready and not node.fault
