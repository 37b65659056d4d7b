"""What a cluster looks like, from its nodes, who holds what, and what the GPUs show. No GPU is looked at by itself.

A node is faulty when it is not ready, has a fault, or one of its GPUs has; a cordoned one is healthy. The overview
counts nodes without GPUs by themselves. A fraction of a GPU counts as a fraction.
"""

from collections.abc import Collection, Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.live import Consumer, NodeNow, Overview, SourceState
from stoker.domain.readings import Metric
from stoker.domain.resources import MILLI
from stoker.domain.workload import Phase
from stoker.telemetry.claims import Claims
from stoker.telemetry.gauges import Gauges
from stoker.telemetry.layout import Layout

RUNNING = frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING, Phase.STOPPING, Phase.TERMINATING})
Group = NDArray[np.integer]


class Scene(Struct, frozen=True, eq=False):
    """Everything that a picture is made of. `allocated` is how much of each GPU is held."""

    at: int
    layout: Layout
    gauges: Gauges
    claims: Claims
    allocated: NDArray[np.int64]
    healthy: NDArray[np.bool_]


def scene_of(at: int, layout: Layout, gauges: Gauges, claims: Claims) -> Scene:
    healthy = layout.healthy.copy()
    healthy[layout.node[list(gauges.faults)]] = False
    return Scene(at, layout, gauges, claims, claims.allocated(layout.roster.gpus), healthy)


def overview(scene: Scene, source: SourceState) -> Overview:
    layout, gauges = scene.layout, scene.gauges
    with_gpus = layout.gpus > 0
    healthy = scene.healthy & with_gpus
    held = np.bincount(layout.node, scene.allocated, len(layout.nodes))
    full = held >= layout.gpus * MILLI
    in_use = scene.healthy[layout.node] & (scene.allocated > 0)
    utilization = gauges.values[Metric.UTILIZATION][in_use]
    measured = ~np.isnan(utilization)
    power = gauges.values[Metric.POWER]
    return Overview(
        at=scene.at,
        source=source,
        nodes=int(with_gpus.sum()),
        healthy_nodes=int(healthy.sum()),
        faulty_nodes=int((with_gpus & ~healthy).sum()),
        idle_nodes=int((healthy & (held == 0)).sum()),
        partial_nodes=int((healthy & (held > 0) & ~full).sum()),
        busy_nodes=int((healthy & full).sum()),
        gpus=int(layout.gpus[healthy].sum()),
        allocated_milli=int(held[healthy].sum()),
        allocated_gpus=int(in_use.sum()),
        measured_gpus=int(measured.sum()),
        utilization_sum=round(float(utilization[measured].sum()), 4),
        power_watts=None if np.isnan(power).all() else round(float(np.nansum(power)), 1),
        storage_total_bytes=sum(volume.total_bytes for volume in gauges.volumes),
        storage_used_bytes=sum(volume.used_bytes for volume in gauges.volumes),
        rdma_ports=sum(each.ports for each in gauges.rdma),
        rdma_active_ports=sum(each.active_ports for each in gauges.rdma),
        rdma_bits_per_second=max((each.bits_per_second for each in gauges.rdma), default=0),
        hottest=dict(gauges.hottest),
        cpu_nodes=int((scene.healthy & ~with_gpus).sum()),
        faulty_cpu_nodes=int((~scene.healthy & ~with_gpus).sum()),
    )


def consumers(scene: Scene, idle_since: Mapping[str, int]) -> list[Consumer]:
    """Running workloads that hold GPUs, most GPUs first."""
    claims, gauges = scene.claims, scene.gauges
    holder, size = claims.holder, len(claims.holders)
    utilization = _means(holder, gauges.values[Metric.UTILIZATION][claims.gpu], size)
    memory = _means(holder, gauges.memory[claims.gpu], size)
    power = _known_sums(holder, gauges.values[Metric.POWER][claims.gpu] * claims.milli / MILLI, size)
    found = [
        Consumer(
            uid=holder.uid,
            slug=holder.slug,
            name=holder.name,
            kind=holder.kind,
            namespace=holder.namespace,
            gpu_milli=milli,
            utilization=used,
            memory=filled,
            power_watts=drawn,
            idle_since=idle_since.get(holder.uid),
        )
        for holder, milli, used, filled, drawn in zip(
            claims.holders,
            claims.total_milli.tolist(),
            or_none(utilization),
            or_none(memory),
            or_none(power, 1),
            strict=True,
        )
        if milli and holder.phase in RUNNING
    ]
    return sorted(found, key=lambda consumer: (-consumer.gpu_milli, consumer.uid))


def idle_since(scene: Scene, claimed: NDArray[np.int64], idle_up_to: float) -> dict[str, int]:
    """Since when every GPU of a workload has been used no more than this: since the last of its claims has been. One
    without a reading says nothing, and nothing is said of a workload without any."""
    claims = scene.claims
    size = len(claims.holders)
    used = scene.gauges.values[Metric.UTILIZATION][claims.gpu]
    since = np.zeros(size, np.int64)
    np.maximum.at(since, claims.holder, claimed)
    since[_counts(claims.holder, used, size) == 0] = 0
    since[claims.holder[used > idle_up_to]] = 0
    return {claims.holders[place].uid: int(since[place]) for place in np.flatnonzero(since).tolist()}


def held_unused(scene: Scene, idle_since: NDArray[np.int64], before: int) -> dict[str, int]:
    """Milli-GPUs by workload whose claims have been idle since before a moment; each counts by itself."""
    claims = scene.claims
    long = (idle_since > 0) & (idle_since < before)
    milli = np.bincount(claims.holder[long], claims.milli[long], len(claims.holders)).astype(np.int64)
    return {claims.holders[place].uid: int(milli[place]) for place in np.flatnonzero(milli).tolist()}


def most_used(scene: Scene, namespaces: Collection[str]) -> dict[str, float | None]:
    """How much the most used GPU of each workload of these namespaces is used; None where one has no reading."""
    claims = scene.claims
    size = len(claims.holders)
    used = scene.gauges.values[Metric.UTILIZATION][claims.gpu]
    known = ~np.isnan(used)
    most = np.full(size, -np.inf)
    np.maximum.at(most, claims.holder[known], used[known])
    seen = np.bincount(claims.holder[known], claims.milli[known], size)
    most[seen < claims.total_milli] = np.nan
    return {
        holder.uid: share
        for holder, share, milli in zip(claims.holders, or_none(most), claims.total_milli.tolist(), strict=True)
        if milli and holder.namespace in namespaces
    }


def nodes(scene: Scene) -> list[NodeNow]:
    """Every node, by name."""
    layout, claims, values = scene.layout, scene.claims, scene.gauges.values
    held = np.bincount(layout.node, scene.allocated, len(layout.nodes)).astype(np.int64)
    size = len(layout.nodes)
    hottest = np.full(size, np.nan)
    np.fmax.at(hottest, layout.node, values[Metric.TEMPERATURE])
    columns = zip(
        layout.nodes,
        layout.models,
        _faults(scene),
        layout.gpus.tolist(),
        held.tolist(),
        claims.pods.tolist(),
        claims.cpu_milli.tolist(),
        claims.memory_bytes.tolist(),
        or_none(_means(layout.node, values[Metric.UTILIZATION], size)),
        or_none(_means(layout.node, scene.gauges.memory, size)),
        or_none(_known_sums(layout.node, values[Metric.POWER], size), 1),
        or_none(hottest, 1),
        strict=True,
    )
    return [
        NodeNow(
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
            fault=fault,
            utilization=used,
            memory=filled,
            power_watts=watts,
            temperature=degrees,
            labels=dict(node.labels),
        )
        for node, models, fault, gpus, milli, pods, cpu, memory_bytes, used, filled, watts, degrees in columns
    ]


def _faults(scene: Scene) -> list[str]:
    """What is wrong with each node; the readings say it where the engine does not, of the first GPU if of several."""
    layout = scene.layout
    found = list(layout.faults)
    for place, message in sorted(scene.gauges.faults.items(), reverse=True):
        row = layout.node[place]
        found[row] = layout.faults[row] or f"GPU {layout.roster.device[place]}: {message}"
    return found


def _sums(group: Group, values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """For each group the sum of the values that are known."""
    return np.bincount(group, np.nan_to_num(values), groups).astype(np.float64)


def _counts(group: Group, values: NDArray[np.float64], groups: int) -> NDArray[np.integer]:
    return np.bincount(group[~np.isnan(values)], minlength=groups)


def _means(group: Group, values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """NaN for a group without any."""
    count = _counts(group, values, groups)
    return np.divide(_sums(group, values, groups), count, out=np.full(groups, np.nan), where=count > 0)


def _known_sums(group: Group, values: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """NaN for a group without any."""
    return np.where(_counts(group, values, groups) > 0, _sums(group, values, groups), np.nan)


def or_none(values: NDArray[np.float64], places: int = 4) -> list[float | None]:
    rounded, missing = np.round(values, places), np.isnan(values)
    shown: list[float | None] = rounded.tolist()
    for place in np.flatnonzero(missing).tolist():
        shown[place] = None
    return shown
