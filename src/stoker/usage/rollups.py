"""A closed hour as it is told: by cluster, namespace, label or annotation, and workload.

Every level is a sum over the same uses, so the levels agree with each other and with the ledger.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, TypeVar

from stoker.domain.clock import HOUR_MS
from stoker.domain.quantity import MIB
from stoker.domain.usage import (
    ClusterHour,
    DimensionHour,
    HourUse,
    Levels,
    NamespaceHour,
    Payer,
    Stats,
    Use,
    WorkloadHour,
)

SINGLE_POD = frozenset(
    {
        "pod-template-hash",
        "controller-uid",
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-completion-index",
        "training.kubeflow.org/replica-index",
        "kubectl.kubernetes.io/last-applied-configuration",
    }
)
"""Labels and annotations that tell single pods or objects apart: nobody adds usage up by them."""

K = TypeVar("K", bound=Hashable)


def levels(hour: HourUse, payers: Mapping[str, Payer], quotas: Mapping[str, int]) -> Levels:
    """The rows of an hour, in a stable order. `quotas` holds the GPUs of the namespaces that are limited."""
    uses = [use for use in hour.uses if use.uid in payers]
    return Levels(
        ClusterHour(
            hour_at=hour.at,
            gpus=hour.gpus,
            capacity=hour.capacity,
            allocated=sum(use.allocated for use in hour.uses),
            **_told(hour.stats),
            **_percentiles(hour.stats),
        ),
        tuple(
            NamespaceHour(hour_at=hour.at, namespace=name, gpus=quotas.get(name, hour.gpus), **_group(group))
            for name, group in _grouped((payers[use.uid].namespace, use) for use in uses)
        ),
        tuple(
            DimensionHour(hour_at=hour.at, kind=kind, key=key, value=value, **_group(group))
            for (kind, key, value), group in _grouped(
                (dimension, use) for use in uses for dimension in _dimensions(payers[use.uid])
            )
        ),
        tuple(_workload(hour.at, use, payers[use.uid]) for use in uses),
    )


def _dimensions(payer: Payer) -> Iterable[tuple[str, str, str]]:
    for kind, pairs in (("label", payer.labels), ("annotation", payer.annotations)):
        for key, value in pairs.items():
            if key not in SINGLE_POD:
                yield kind, key, value


def _grouped(members: Iterable[tuple[K, Use]]) -> list[tuple[K, list[Use]]]:
    groups: defaultdict[K, list[Use]] = defaultdict(list)
    for key, use in members:
        groups[key].append(use)
    return sorted(groups.items(), key=lambda pair: str(pair[0]))


def _group(uses: list[Use]) -> dict[str, Any]:
    measured = [use.stats for use in uses if use.stats.samples]
    together = Stats(
        sum(stats.samples for stats in measured),
        sum(stats.total for stats in measured),
        min((stats.lowest for stats in measured), default=0),
        max((stats.highest for stats in measured), default=0),
    )
    return {**_told(together), "allocated": sum(use.allocated for use in uses), "workloads": len(uses)}


def _workload(at: int, use: Use, payer: Payer) -> WorkloadHour:
    memory, samples = use.memory, max(1, use.memory.samples)
    return WorkloadHour(
        hour_at=at,
        uid=use.uid,
        slug=payer.slug,
        name=payer.name,
        kind=payer.kind,
        namespace=payer.namespace,
        phase=payer.phase,
        allocated=use.allocated,
        requested_milli=max(payer.requested_milli, use.peak_milli, -(-use.allocated // HOUR_MS)),
        **_told(use.stats),
        **_percentiles(use.stats),
        memory_used=round(memory.used_total * MIB / samples),
        memory_highest=memory.used_highest * MIB,
        memory_size=round(memory.size_total * MIB / samples),
        replicas_milli=round(use.replicas.average * 1000),
        replicas_highest=use.replicas.highest,
        replicas_lowest=use.replicas.lowest,
        labels=payer.labels,
        annotations=payer.annotations,
    )


def _told(stats: Stats) -> dict[str, int]:
    average = round(stats.total / stats.samples) if stats.samples else 0
    return {
        "utilization": average,
        "lowest": stats.lowest,
        "highest": stats.highest,
        "samples": stats.samples,
    }


def _percentiles(stats: Stats) -> dict[str, int]:
    return {"p50": round(stats.p50), "p95": round(stats.p95)}
