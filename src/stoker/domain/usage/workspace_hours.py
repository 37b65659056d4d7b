"""Closed hours of some workspaces, aggregated from the hours of their workloads.

Sums, means and extremes equal those of the stored rollups. Percentiles of several workloads are the mean
of theirs, weighted by samples.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from itertools import groupby
from typing import Any, TypeVar

from msgspec import structs

from stoker.domain.cluster.resources import MILLI
from stoker.domain.usage.hours import ClusterHour, DimensionHour, DimensionQuery, NamespaceHour, WorkloadHour
from stoker.domain.usage.ledger import GPU_HOUR, PER_POD_LABELS

K = TypeVar("K", bound=Hashable)


def scope_cluster_hour(whole: ClusterHour, hours: list[WorkloadHour], quotas: Iterable[int | None]) -> ClusterHour:
    """A cluster's hour restricted to these workloads. Its GPUs are limited by the quotas of the workspaces."""
    gpus = min(whole.gpus, sum(whole.gpus if quota is None else quota // MILLI for quota in quotas))
    totals = _aggregate(hours)
    totals.pop("workloads")
    weights = max(1, sum(hour.samples for hour in hours))
    return structs.replace(
        whole,
        gpus=gpus,
        capacity=gpus * GPU_HOUR,
        p50=round(sum(hour.p50 * hour.samples for hour in hours) / weights),
        p95=round(sum(hour.p95 * hour.samples for hour in hours) / weights),
        **totals,
    )


def aggregate_namespace_hours(
    hours: Iterable[WorkloadHour], gpus: Mapping[tuple[int, str], int]
) -> list[NamespaceHour]:
    """Aggregate by hour and namespace; `gpus` has the limit of each namespace in each hour."""
    return [
        NamespaceHour(
            hour_at=at, namespace=name, gpus=gpus.get((at, name), 0), **_aggregate(group), **_row_metadata(group)
        )
        for (at, name), group in _group_by_key(((hour.hour_at, hour.namespace), hour) for hour in hours)
    ]


def aggregate_dimension_hours(hours: Iterable[WorkloadHour], query: DimensionQuery) -> list[DimensionHour]:
    """Aggregate workloads with the queried label or annotation by hour and value."""
    members = (((hour.hour_at, value), hour) for hour in hours if (value := _dimension_value(hour, query)) is not None)
    return [
        DimensionHour(
            hour_at=at, kind=query.kind, key=query.key, value=value, **_aggregate(group), **_row_metadata(group)
        )
        for (at, value), group in _group_by_key(members)
    ]


def group_by_hour(hours: Iterable[WorkloadHour]) -> dict[int, list[WorkloadHour]]:
    return {at: list(group) for at, group in groupby(hours, key=lambda hour: hour.hour_at)}


def _dimension_value(hour: WorkloadHour, query: DimensionQuery) -> str | None:
    if query.key in PER_POD_LABELS:
        return None
    value = (hour.labels if query.kind == "label" else hour.annotations).get(query.key)
    return value if not query.value or value == query.value else None


def _group_by_key(members: Iterable[tuple[K, WorkloadHour]]) -> list[tuple[K, list[WorkloadHour]]]:
    groups: defaultdict[K, list[WorkloadHour]] = defaultdict(list)
    for key, hour in members:
        groups[key].append(hour)
    return sorted(groups.items(), key=lambda pair: pair[0])  # pyrefly: ignore


def _aggregate(hours: list[WorkloadHour]) -> dict[str, Any]:
    measured = [hour for hour in hours if hour.samples]
    samples = sum(hour.samples for hour in measured)
    return {
        "allocated": sum(hour.allocated for hour in hours),
        "utilization": round(sum(hour.utilization * hour.samples for hour in measured) / samples) if samples else 0,
        "min_utilization": min((hour.min_utilization for hour in measured), default=0),
        "max_utilization": max((hour.max_utilization for hour in measured), default=0),
        "samples": samples,
        "workloads": len(hours),
    }


def _row_metadata(hours: list[WorkloadHour]) -> dict[str, int]:
    """The lowest id of the aggregated rows, and the range of their write times."""
    return {
        "id": min(hour.id for hour in hours),
        "created_at": min(hour.created_at for hour in hours),
        "updated_at": max(hour.updated_at for hour in hours),
    }
