"""What nodes have, hold and use now, added up for groups of them."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.identity import Cluster
from stoker.domain.listing import Window
from stoker.domain.live import NodeNow
from stoker.domain.resources import MILLI
from stoker.services.context import Context
from stoker.services.grids import NodeGpus, NodeQuery
from stoker.services.live import Live

LONG_IDLE_MS = 300_000
"""GPUs that have been idle for longer than this count as such."""
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
    MEMORY = "memory"
    ALLOCATED_MEMORY = "allocated_memory"


class NodeGrouping(StrEnum):
    CLUSTER = "cluster"
    POOL = "pool"
    NODE = "node"


class NodeSum(Struct, frozen=True):
    """The values of the groups, in their order, with the names of those that have another one."""

    amount: float
    groups: tuple[tuple[str, str], ...] = ()


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
        gpus: Mapping[tuple[str, str], NodeGpus] = {}
        if amount in OF_GPUS:
            grid = await self._live.gpus()
            gpus = await asyncio.to_thread(grid.by_node, now - LONG_IDLE_MS)
        found = nodes.browse(NodeQuery(cluster_id=wanted, pool=pool), Window(0, WHOLE)).items
        sums: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
        if not by:
            sums[()] = 0.0
        for where, node in found:
            groups = tuple(_group(each, where, node) for each in by)
            sums[groups] += AMOUNTS[amount](node, gpus.get((where.id, node.name), NO_GPUS))
        return [NodeSum(total, groups) for groups, total in sorted(sums.items())], now


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
