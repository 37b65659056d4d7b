"""The overview, consumers and nodes of a live view. Everything is computed in arrays, no GPU by itself.

A node is faulty if it is not ready or has a fault, or one of its GPUs has one; a cordoned node is healthy. GPUs are
counted as `count_gpus` does. The overview counts nodes without GPUs separately. A part of a GPU counts as a part.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from stoker.domain.cluster.live_view import ClusterSummary, CollectorStatus, GpuConsumer, LiveNode
from stoker.domain.cluster.resources import MILLI
from stoker.domain.cluster.samples import GpuMetric
from stoker.telemetry.live.group_stats import group_means, group_sums, nan_to_none
from stoker.telemetry.live.state import RUNNING_PHASES, LiveClusterState


def build_overview(state: LiveClusterState, source: CollectorStatus) -> ClusterSummary:
    topology, samples = state.topology, state.samples
    with_gpus = topology.gpu_counts > 0
    healthy = topology.healthy & with_gpus
    allocated = np.bincount(topology.gpu_node_rows, state.allocated, len(topology.nodes))
    full = allocated >= topology.gpu_counts * MILLI
    in_use = state.allocated > 0
    utilization = samples.values[GpuMetric.UTILIZATION][in_use & state.measured_gpus()]
    measured = ~np.isnan(utilization)
    power = samples.values[GpuMetric.POWER]
    return ClusterSummary(
        at=state.at,
        source=source,
        nodes=int(with_gpus.sum()),
        healthy_nodes=int(healthy.sum()),
        faulty_nodes=int((with_gpus & ~healthy).sum()),
        idle_nodes=int((healthy & (allocated == 0)).sum()),
        partial_nodes=int((healthy & (allocated > 0) & ~full).sum()),
        busy_nodes=int((healthy & full).sum()),
        gpus=topology.totals.total,
        allocated_milli=int(allocated.sum()),
        allocated_gpus=int(in_use.sum()),
        measured_gpus=int(measured.sum()),
        utilization_sum=round(float(utilization[measured].sum()), 4),
        power_watts=None if np.isnan(power).all() else round(float(np.nansum(power)), 1),
        storage_total_bytes=sum(volume.total_bytes for volume in samples.volumes),
        storage_used_bytes=sum(volume.used_bytes for volume in samples.volumes),
        rdma_ports=sum(sample.ports for sample in samples.rdma),
        rdma_active_ports=sum(sample.active_ports for sample in samples.rdma),
        rdma_bits_per_second=max((sample.bits_per_second for sample in samples.rdma), default=0),
        hottest=dict(samples.top_gpus),
        cpu_nodes=int((topology.healthy & ~with_gpus).sum()),
        faulty_cpu_nodes=int((~topology.healthy & ~with_gpus).sum()),
        rdma_received_bytes_per_second=round(sum(sample.received_bytes_per_second for sample in samples.rdma)),
        rdma_sent_bytes_per_second=round(sum(sample.sent_bytes_per_second for sample in samples.rdma)),
        healthy_gpus=int(topology.gpu_counts[healthy].sum()),
        healthy_allocated_milli=int(allocated[healthy].sum()),
        faulty_gpus=topology.totals.faulty,
        not_ready_gpus=topology.totals.not_ready,
        cordoned_gpus=topology.totals.cordoned,
    )


def list_consumers(state: LiveClusterState, idle_since: Mapping[str, int]) -> list[GpuConsumer]:
    """Running workloads with GPUs, most GPUs first; `idle_since` is by uid."""
    allocations, samples = state.allocations, state.samples
    group, size = allocations.workload, len(allocations.workloads)
    utilization = group_means(group, state.by_allocation(samples.values[GpuMetric.UTILIZATION]), size)
    memory = group_means(group, state.by_allocation(samples.memory_fraction), size)
    power = group_sums(group, state.by_allocation(samples.values[GpuMetric.POWER]) * allocations.milli / MILLI, size)
    consumers = [
        GpuConsumer(
            uid=workload.uid,
            slug=workload.slug,
            name=workload.name,
            kind=workload.kind,
            namespace=workload.namespace,
            gpu_milli=milli,
            utilization=used,
            memory=memory_used,
            power_watts=watts,
            idle_since=idle_since.get(workload.uid),
        )
        for workload, milli, used, memory_used, watts in zip(
            allocations.workloads,
            allocations.total_milli.tolist(),
            nan_to_none(utilization),
            nan_to_none(memory),
            nan_to_none(power, 1),
            strict=True,
        )
        if milli and workload.phase in RUNNING_PHASES
    ]
    return sorted(consumers, key=lambda consumer: (-consumer.gpu_milli, consumer.uid))


def list_nodes(state: LiveClusterState) -> list[LiveNode]:
    """Every node, by name."""
    topology, allocations, values = state.topology, state.allocations, state.samples.values
    group, size = topology.gpu_node_rows, len(topology.nodes)
    allocated = np.bincount(group, state.allocated, size).astype(np.int64)
    temperature = np.full(size, np.nan)
    np.fmax.at(temperature, group, values[GpuMetric.TEMPERATURE])
    received: Counter[str] = Counter()
    sent: Counter[str] = Counter()
    for sample in state.samples.rdma:
        received[sample.node] += round(sample.received_bytes_per_second)
        sent[sample.node] += round(sample.sent_bytes_per_second)
    columns = zip(
        topology.nodes,
        topology.models,
        topology.health,
        topology.gpu_counts.tolist(),
        allocated.tolist(),
        allocations.pods.tolist(),
        allocations.cpu_milli.tolist(),
        allocations.memory_bytes.tolist(),
        nan_to_none(group_means(group, values[GpuMetric.UTILIZATION], size)),
        nan_to_none(group_means(group, state.samples.memory_fraction, size)),
        nan_to_none(group_sums(group, values[GpuMetric.POWER], size), 1),
        nan_to_none(temperature, 1),
        strict=True,
    )
    return [
        LiveNode(
            name=node.name,
            pool=node.pool,
            models=models,
            gpus=gpus,
            allocated_milli=milli,
            pods=pods,
            cpu_milli=node.cpu_milli,
            cpu_allocated_milli=cpu,
            memory_bytes=node.memory_bytes,
            memory_allocated_bytes=memory_bytes,
            ready=node.ready,
            cordoned=node.cordoned,
            fault=health.fault,
            utilization=used,
            memory=memory_used,
            power_watts=watts,
            temperature=degrees,
            labels=dict(node.labels),
            rdma_received_bytes_per_second=received.get(node.name),
            rdma_sent_bytes_per_second=sent.get(node.name),
            faulty_gpus=health.gpus.faulty,
            schedulable_gpus=health.gpus.schedulable,
        )
        for node, models, health, gpus, milli, pods, cpu, memory_bytes, used, memory_used, watts, degrees in columns
    ]
