"""Sums of cluster summaries: several clusters as one fleet, or the part of a cluster that a caller may see.

A value that a cluster did not publish is left out of the sum.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from stoker.domain.cluster.gpu_metric import GpuMetric
from stoker.domain.cluster.live_view import MAX_TOP_GPUS, ClusterSummary, GpuColumns, LiveNode, TopGpu
from stoker.domain.cluster.node import GpuCounts
from stoker.domain.cluster.resources import MILLI


class FleetTotals(Struct, frozen=True):
    """`nodes` counts nodes with GPUs; the healthy ones among them are idle, partial or busy. Nodes without GPUs are
    `cpu_nodes` or `faulty_cpu_nodes`. `gpus` counts all GPUs. Rates are between 0 and 1."""

    nodes: int = 0
    healthy_nodes: int = 0
    faulty_nodes: int = 0
    idle_nodes: int = 0
    partial_nodes: int = 0
    busy_nodes: int = 0
    cpu_nodes: int = 0
    faulty_cpu_nodes: int = 0
    gpus: int = 0
    faulty_gpus: int = 0
    not_ready_gpus: int = 0
    cordoned_gpus: int = 0
    allocated_milli: int = 0
    healthy_gpus: int = 0
    healthy_allocated_milli: int = 0
    measured_gpus: int = 0
    utilization_sum: float = 0.0
    power_watts: float | None = None
    storage_total_bytes: int = 0
    storage_used_bytes: int = 0
    rdma_ports: int = 0
    rdma_active_ports: int = 0
    rdma_bits_per_second: int = 0
    """The bandwidth of the fastest port."""
    rdma_received_bytes_per_second: int = 0
    rdma_sent_bytes_per_second: int = 0

    @property
    def schedulable_gpus(self) -> int:
        """The GPUs that the scheduler can assign, allocated or not."""
        return GpuCounts(self.gpus, self.faulty_gpus, self.not_ready_gpus, self.cordoned_gpus).schedulable

    @property
    def allocation_rate(self) -> float:
        return _ratio(self.allocated_milli, self.gpus * MILLI)

    @property
    def healthy_allocation_rate(self) -> float:
        """The allocation rate of healthy nodes."""
        return _ratio(self.healthy_allocated_milli, self.healthy_gpus * MILLI)

    @property
    def utilization(self) -> float | None:
        """The mean over the allocated GPUs that have a sample; None without any sample."""
        return _ratio(self.utilization_sum, self.measured_gpus) if self.measured_gpus else None

    @property
    def storage_rate(self) -> float:
        return _ratio(self.storage_used_bytes, self.storage_total_bytes)


_SUMMED_FIELDS = tuple(
    name for name in FleetTotals.__struct_fields__ if name not in {"power_watts", "rdma_bits_per_second"}
)


def sum_clusters(summaries: Sequence[ClusterSummary]) -> FleetTotals:
    sums = {name: sum(getattr(summary, name) for summary in summaries) for name in _SUMMED_FIELDS}
    powers = [summary.power_watts for summary in summaries if summary.power_watts is not None]
    fastest = max((summary.rdma_bits_per_second for summary in summaries), default=0)
    return FleetTotals(**sums, power_watts=sum(powers) if powers else None, rdma_bits_per_second=fastest)


def top_gpus(summaries: Iterable[ClusterSummary], metric: GpuMetric, number: int) -> list[TopGpu]:
    """The GPUs with the highest values, highest first."""
    lists = [summary.hottest.get(metric, []) for summary in summaries]
    merged = heapq.merge(*lists, key=lambda gpu: gpu.value, reverse=True)
    return [gpu for gpu, _ in zip(merged, range(number), strict=False)]


def restrict_to_gpus(summary: ClusterSummary, gpus: GpuColumns, nodes: Iterable[LiveNode]) -> ClusterSummary:
    """The summary of some allocated GPUs and their nodes. Storage and network are left out, because all workloads share
    them."""
    known = {node.name: node for node in nodes if node.name in set(gpus.node)}
    healthy = {name: node for name, node in known.items() if node.is_healthy}
    rows = [row for row, name in enumerate(gpus.node) if name in healthy]
    allocated_by_node: Counter[str] = Counter()
    for row in rows:
        allocated_by_node[gpus.node[row]] += gpus.allocated_milli[row]
    busy = sum(allocated_by_node[name] >= node.gpus * MILLI for name, node in healthy.items())
    counts = _count_gpus(gpus, known)
    utilizations = [value for value in gpus.utilization if value is not None]
    powers = [value for value in gpus.power_watts if value is not None]
    return ClusterSummary(
        at=summary.at,
        source=summary.source,
        nodes=len(known),
        healthy_nodes=len(healthy),
        faulty_nodes=len(known) - len(healthy),
        idle_nodes=0,
        partial_nodes=len(healthy) - busy,
        busy_nodes=busy,
        gpus=counts.total,
        allocated_milli=sum(gpus.allocated_milli),
        allocated_gpus=len(gpus.node),
        measured_gpus=len(utilizations),
        utilization_sum=sum(utilizations),
        power_watts=sum(powers) if powers else None,
        storage_total_bytes=0,
        storage_used_bytes=0,
        rdma_ports=0,
        rdma_active_ports=0,
        rdma_bits_per_second=0,
        hottest={
            GpuMetric.UTILIZATION: _top_gpus_of(gpus, gpus.utilization),
            GpuMetric.POWER: _top_gpus_of(gpus, gpus.power_watts),
            GpuMetric.TEMPERATURE: _top_gpus_of(gpus, gpus.temperature),
        },
        healthy_gpus=len(rows),
        healthy_allocated_milli=sum(allocated_by_node.values()),
        faulty_gpus=counts.faulty,
        not_ready_gpus=counts.not_ready,
        cordoned_gpus=counts.cordoned,
    )


def _count_gpus(gpus: GpuColumns, nodes: Mapping[str, LiveNode]) -> GpuCounts:
    """The GPUs, and how many of them the scheduler cannot assign, by the reason."""
    faulty = sum(map(bool, gpus.fault))
    nodes_of_working = (nodes.get(name) for name, fault in zip(gpus.node, gpus.fault, strict=True) if not fault)
    unschedulable = [node for node in nodes_of_working if node is not None and not node.schedulable_gpus]
    cordoned = sum(node.ready and node.cordoned for node in unschedulable)
    return GpuCounts(len(gpus.node), faulty, len(unschedulable) - cordoned, cordoned)


def _top_gpus_of(gpus: GpuColumns, values: Sequence[float | None]) -> list[TopGpu]:
    rows = zip(gpus.node, gpus.device, gpus.model, values, strict=True)
    known = [TopGpu(node, device, model, value) for node, device, model, value in rows if value is not None]
    return sorted(known, key=lambda gpu: -gpu.value)[:MAX_TOP_GPUS]


def _ratio(part: float, whole: float) -> float:
    return min(1.0, max(0.0, part / whole)) if whole else 0.0
