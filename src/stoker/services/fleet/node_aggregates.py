"""Current capacity, allocation and usage of nodes, summed by group."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import LiveNode
from stoker.domain.cluster.resources import MILLI
from stoker.domain.cluster.sample_age import max_sample_age
from stoker.domain.metrics.pod_samples import PodMetric, PodSampleSource
from stoker.domain.names import natural_sort_key
from stoker.domain.queries.pages import PageRequest
from stoker.domain.workload.idle import LONG_IDLE_MS
from stoker.services.context import Context
from stoker.services.fleet.gpu_grid import NodeGpuTotals
from stoker.services.fleet.live import LiveViewReader
from stoker.services.fleet.node_grid import NodeQuery
from stoker.store.db.base import Transaction
from stoker.store.telemetry import pod_samples
from stoker.store.workloads import pods

UNLIMITED = 1 << 31
NO_GPU_TOTALS = NodeGpuTotals()


class NodeMetric(StrEnum):
    GPU_NODES = "gpu_nodes"
    READY_GPU_NODES = "ready_gpu_nodes"
    FREE_GPU_NODES = "free_gpu_nodes"
    """Ready nodes without allocated GPUs."""
    GPUS = "gpus"
    READY_GPUS = "ready_gpus"
    ALLOCATED_GPUS = "allocated_gpus"
    FREE_GPUS = "free_gpus"
    IDLE_GPUS = "idle_gpus"
    """Allocated, but idle for longer than LONG_IDLE_MS."""
    GPU_MEMORY = "gpu_memory"
    GPU_MEMORY_USED = "gpu_memory_used"
    CPUS = "cpus"
    ALLOCATED_CPUS = "allocated_cpus"
    USED_CPUS = "used_cpus"
    """By pods; other processes of a node are not counted."""
    MEMORY = "memory"
    ALLOCATED_MEMORY = "allocated_memory"
    USED_MEMORY = "used_memory"


class NodeGrouping(StrEnum):
    CLUSTER = "cluster"
    POOL = "pool"
    NODE = "node"


class NodeAggregate(Struct, frozen=True):
    """A sum, and its groups as (value, display name); the name is empty where the value is shown."""

    value: float
    groups: tuple[tuple[str, str], ...] = ()


NodeKey = tuple[str, str]
"""Cluster id and node name."""
NodeMetricFn = Callable[[LiveNode, NodeGpuTotals], float]
NODE_METRICS: Mapping[NodeMetric, NodeMetricFn] = {
    NodeMetric.GPU_NODES: lambda node, _: node.gpus > 0,
    NodeMetric.READY_GPU_NODES: lambda node, _: node.gpus > 0 and node.is_healthy,
    NodeMetric.FREE_GPU_NODES: lambda node, _: node.gpus > 0 and node.is_healthy and not node.allocated_milli,
    NodeMetric.GPUS: lambda node, _: node.gpus,
    NodeMetric.READY_GPUS: lambda node, _: node.gpus if node.is_healthy else 0,
    NodeMetric.ALLOCATED_GPUS: lambda node, _: node.allocated_milli / MILLI,
    NodeMetric.FREE_GPUS: lambda node, _: node.gpus - node.allocated_milli / MILLI if node.is_healthy else 0,
    NodeMetric.IDLE_GPUS: lambda _, gpus: gpus.idle_milli / MILLI,
    NodeMetric.GPU_MEMORY: lambda _, gpus: gpus.memory_bytes,
    NodeMetric.GPU_MEMORY_USED: lambda _, gpus: gpus.used_bytes,
    NodeMetric.CPUS: lambda node, _: node.cpu_milli / MILLI,
    NodeMetric.ALLOCATED_CPUS: lambda node, _: node.cpu_allocated_milli / MILLI,
    NodeMetric.MEMORY: lambda node, _: node.memory_bytes,
    NodeMetric.ALLOCATED_MEMORY: lambda node, _: node.memory_allocated_bytes,
}
POD_METRICS = {NodeMetric.USED_CPUS: (PodMetric.CPU_MILLI, MILLI), NodeMetric.USED_MEMORY: (PodMetric.MEMORY_BYTES, 1)}
"""Metrics summed from pod samples, with the unit of the samples."""
GPU_METRICS = frozenset({NodeMetric.IDLE_GPUS, NodeMetric.GPU_MEMORY, NodeMetric.GPU_MEMORY_USED})


class NodeAggregates:
    def __init__(self, context: Context, live: LiveViewReader) -> None:
        self._context = context
        self._live = live

    async def read(
        self, metric: NodeMetric, group_by: Sequence[NodeGrouping], cluster: str = "", pool: str = ""
    ) -> tuple[list[NodeAggregate], int]:
        """The aggregates ordered by group, and their time."""
        cluster_id = (await self._live.clusters(cluster))[0].cluster.id if cluster else ""
        nodes = await self._live.nodes()
        now = self._context.clock.now()
        value_of = await self._metric_fn(metric, now)
        items = nodes.list_nodes(NodeQuery(cluster_id=cluster_id, pool=pool), PageRequest(0, UNLIMITED)).items
        sums: dict[tuple[tuple[str, str], ...], float] = defaultdict(float)
        if not group_by:
            sums[()] = 0.0
        for node_cluster, node in items:
            groups = tuple(_group_of(grouping, node_cluster, node) for grouping in group_by)
            sums[groups] += value_of(node_cluster, node)
        return [NodeAggregate(sums[groups], groups) for groups in sorted(sums, key=_natural_sort_key)], now

    async def _metric_fn(self, metric: NodeMetric, now: int) -> Callable[[Cluster, LiveNode], float]:
        """The function that gives the value of each node."""
        if metric in POD_METRICS:
            clusters = [status.cluster.id for status in await self._live.clusters()]
            oldest = now - max_sample_age(self._context.settings.sample_seconds * 1000)
            used = await self._context.store.read(lambda tx: _used_by_node(tx, clusters, metric, oldest))
            return lambda cluster, node: used.get((cluster.id, node.name), 0.0)
        gpus: Mapping[NodeKey, NodeGpuTotals] = {}
        if metric in GPU_METRICS:
            grid = await self._live.gpus()
            gpus = await asyncio.to_thread(grid.totals_by_node, now - LONG_IDLE_MS)
        return lambda cluster, node: NODE_METRICS[metric](node, gpus.get((cluster.id, node.name), NO_GPU_TOTALS))


def _used_by_node(
    transaction: Transaction, clusters: Sequence[str], metric: NodeMetric, from_at: int
) -> dict[NodeKey, float]:
    """The latest pod usage of each node."""
    pod_metric, unit = POD_METRICS[metric]
    sums: dict[NodeKey, float] = defaultdict(float)
    for cluster_id in clusters:
        node_by_pod = pods.nodes_of_unreleased(transaction, cluster_id)
        for uid, values in pod_samples.latest_tick(transaction, cluster_id, PodSampleSource.USAGE, from_at).items():
            if uid in node_by_pod:
                sums[cluster_id, node_by_pod[uid]] += values.get(pod_metric, 0.0) / unit
    return sums


def _group_of(grouping: NodeGrouping, cluster: Cluster, node: LiveNode) -> tuple[str, str]:
    match grouping:
        case NodeGrouping.CLUSTER:
            return cluster.id, cluster.name
        case NodeGrouping.POOL:
            return node.pool, ""
        case NodeGrouping.NODE:
            return node.name, ""


def _natural_sort_key(groups: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(natural_sort_key(value), value) for value, _ in groups]
