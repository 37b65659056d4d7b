"""Rollups of a closed hour by cluster, namespace, label or annotation, and workload.

All levels are sums over the same workload usages, so they agree with each other and with the ledger.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.quantity import MIB
from stoker.domain.usage.hours import ClusterHour, DimensionHour, HourRollups, NamespaceHour, WorkloadHour
from stoker.domain.usage.ledger import PER_POD_LABELS, CostOwner, HourUsage, UtilizationStats, WorkloadUsage

K = TypeVar("K", bound=Hashable)


def build_rollups(hour: HourUsage, owners: Mapping[str, CostOwner], quotas: Mapping[str, int]) -> HourRollups:
    """The rows of an hour in a stable order. `quotas` has the GPU quota of each limited namespace."""
    usages = [usage for usage in hour.workloads if usage.uid in owners]
    return HourRollups(
        ClusterHour(
            hour_at=hour.at,
            gpus=hour.gpus,
            capacity=hour.capacity,
            allocated=sum(usage.allocated for usage in hour.workloads),
            **_utilization_fields(hour.stats),
            **_percentile_fields(hour.stats),
        ),
        tuple(
            NamespaceHour(hour_at=hour.at, namespace=name, gpus=quotas.get(name, hour.gpus), **_aggregate(group))
            for name, group in _group_by_key((owners[usage.uid].namespace, usage) for usage in usages)
        ),
        tuple(
            DimensionHour(hour_at=hour.at, kind=kind, key=key, value=value, **_aggregate(group))
            for (kind, key, value), group in _group_by_key(
                (dimension, usage) for usage in usages for dimension in _dimensions_of(owners[usage.uid])
            )
        ),
        tuple(_workload_hour(hour.at, usage, owners[usage.uid]) for usage in usages),
    )


def _dimensions_of(owner: CostOwner) -> Iterable[tuple[str, str, str]]:
    for kind, pairs in (("label", owner.labels), ("annotation", owner.annotations)):
        for key, value in pairs.items():
            if key not in PER_POD_LABELS:
                yield kind, key, value


def _group_by_key(members: Iterable[tuple[K, WorkloadUsage]]) -> list[tuple[K, list[WorkloadUsage]]]:
    groups: defaultdict[K, list[WorkloadUsage]] = defaultdict(list)
    for key, usage in members:
        groups[key].append(usage)
    return sorted(groups.items(), key=lambda pair: str(pair[0]))


def _aggregate(usages: list[WorkloadUsage]) -> dict[str, Any]:
    measured = [usage.stats for usage in usages if usage.stats.samples]
    combined = UtilizationStats(
        sum(stats.samples for stats in measured),
        sum(stats.total for stats in measured),
        min((stats.min for stats in measured), default=0),
        max((stats.max for stats in measured), default=0),
    )
    return {
        **_utilization_fields(combined),
        "allocated": sum(usage.allocated for usage in usages),
        "workloads": len(usages),
    }


def _workload_hour(at: int, usage: WorkloadUsage, owner: CostOwner) -> WorkloadHour:
    memory, samples = usage.memory, max(1, usage.memory.samples)
    return WorkloadHour(
        hour_at=at,
        uid=usage.uid,
        slug=owner.slug,
        name=owner.name,
        kind=owner.kind,
        namespace=owner.namespace,
        phase=owner.phase,
        allocated=usage.allocated,
        requested_milli=max(owner.requested_milli, usage.peak_milli, -(-usage.allocated // HOUR_MS)),
        **_utilization_fields(usage.stats),
        **_percentile_fields(usage.stats),
        memory_used=round(memory.used_total * MIB / samples),
        max_memory=memory.used_max * MIB,
        memory_size=round(memory.size_total * MIB / samples),
        replicas_milli=round(usage.replicas.average * 1000),
        max_replicas=usage.replicas.max,
        min_replicas=usage.replicas.min,
        labels=owner.labels,
        annotations=owner.annotations,
    )


def _utilization_fields(stats: UtilizationStats) -> dict[str, int]:
    average = round(stats.total / stats.samples) if stats.samples else 0
    return {
        "utilization": average,
        "min_utilization": stats.min,
        "max_utilization": stats.max,
        "samples": stats.samples,
    }


def _percentile_fields(stats: UtilizationStats) -> dict[str, int]:
    return {"p50": round(stats.p50), "p95": round(stats.p95)}
