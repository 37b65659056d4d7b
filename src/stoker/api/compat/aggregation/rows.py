"""Rows of the hourly statistics, with the fields of the API document in its order."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from stoker.api.compat.aggregation.formatting import format_time, to_gigabytes, to_gpus, to_percent, to_rate, to_status
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.resources import MILLI
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.hours import ClusterHour, DimensionHour, NamespaceHour, WorkloadHour
from stoker.domain.usage.ledger import GPU_HOUR

S = TypeVar("S")
T = TypeVar("T")


class StatsPage(Struct, Generic[T], frozen=True):
    total: int
    page: int
    page_size: int
    total_pages: int
    data: list[T]


class ClusterStats(Struct, frozen=True, kw_only=True):
    id: int
    cluster_name: str
    stat_hour: str
    total_gpu_capacity: int
    allocated_gpu_count: float
    allocation_rate: float
    avg_utilization: float
    max_utilization: float
    min_utilization: float
    p50_utilization: float
    p95_utilization: float
    sample_count: int
    created_at: str
    updated_at: str


class NamespaceStats(Struct, frozen=True, kw_only=True):
    id: int
    cluster_name: str
    namespace: str
    stat_hour: str
    total_gpu_capacity: int
    allocated_gpu_count: float
    avg_utilization: float
    max_utilization: float
    min_utilization: float
    active_workload_count: int
    created_at: str
    updated_at: str


class LabelStats(Struct, frozen=True, kw_only=True):
    id: int
    cluster_name: str
    dimension_type: str
    dimension_key: str
    dimension_value: str
    stat_hour: str
    allocated_gpu_count: float
    avg_utilization: float
    max_utilization: float
    min_utilization: float
    active_workload_count: int
    created_at: str
    updated_at: str


class WorkloadStats(Struct, frozen=True, kw_only=True):
    id: int
    cluster_name: str
    namespace: str
    workload_name: str
    workload_type: str
    stat_hour: str
    allocated_gpu_count: float
    requested_gpu_count: float
    avg_utilization: float
    max_utilization: float
    min_utilization: float
    p50_utilization: float
    p95_utilization: float
    avg_gpu_memory_used: float
    max_gpu_memory_used: float
    avg_gpu_memory_total: float
    avg_replica_count: float
    max_replica_count: int
    min_replica_count: int
    workload_status: str
    sample_count: int
    owner_uid: str
    owner_name: str
    labels: dict[str, str]
    annotations: dict[str, str]
    created_at: str
    updated_at: str


def to_stats_page(found: PageResult[S], window: PageRequest, view: Callable[[S], T]) -> StatsPage[T]:
    return StatsPage(
        total=found.total,
        page=window.offset // window.limit + 1,
        page_size=window.limit,
        total_pages=-(-found.total // window.limit),
        data=[view(item) for item in found.items],
    )


def to_cluster_stats(cluster: Cluster, hour: ClusterHour) -> ClusterStats:
    return ClusterStats(
        id=hour.id,
        cluster_name=cluster.name,
        stat_hour=format_time(hour.hour_at),
        total_gpu_capacity=hour.gpus,
        allocated_gpu_count=to_gpus(hour.allocated),
        allocation_rate=to_rate(hour.allocated, hour.gpus * GPU_HOUR),
        avg_utilization=to_percent(hour.utilization),
        max_utilization=to_percent(hour.max_utilization),
        min_utilization=to_percent(hour.min_utilization),
        p50_utilization=to_percent(hour.p50),
        p95_utilization=to_percent(hour.p95),
        sample_count=hour.samples,
        created_at=format_time(hour.created_at),
        updated_at=format_time(hour.updated_at),
    )


def to_namespace_stats(cluster: Cluster, hour: NamespaceHour) -> NamespaceStats:
    return NamespaceStats(
        id=hour.id,
        cluster_name=cluster.name,
        namespace=hour.namespace,
        stat_hour=format_time(hour.hour_at),
        total_gpu_capacity=hour.gpus,
        allocated_gpu_count=to_gpus(hour.allocated),
        avg_utilization=to_percent(hour.utilization),
        max_utilization=to_percent(hour.max_utilization),
        min_utilization=to_percent(hour.min_utilization),
        active_workload_count=hour.workloads,
        created_at=format_time(hour.created_at),
        updated_at=format_time(hour.updated_at),
    )


def to_label_stats(cluster: Cluster, hour: DimensionHour) -> LabelStats:
    return LabelStats(
        id=hour.id,
        cluster_name=cluster.name,
        dimension_type=hour.kind,
        dimension_key=hour.key,
        dimension_value=hour.value,
        stat_hour=format_time(hour.hour_at),
        allocated_gpu_count=to_gpus(hour.allocated),
        avg_utilization=to_percent(hour.utilization),
        max_utilization=to_percent(hour.max_utilization),
        min_utilization=to_percent(hour.min_utilization),
        active_workload_count=hour.workloads,
        created_at=format_time(hour.created_at),
        updated_at=format_time(hour.updated_at),
    )


def to_workload_stats(cluster: Cluster, hour: WorkloadHour) -> WorkloadStats:
    return WorkloadStats(
        id=hour.id,
        cluster_name=cluster.name,
        namespace=hour.namespace,
        workload_name=hour.name,
        workload_type=hour.kind,
        stat_hour=format_time(hour.hour_at),
        allocated_gpu_count=to_gpus(hour.allocated),
        requested_gpu_count=hour.requested_milli / MILLI,
        avg_utilization=to_percent(hour.utilization),
        max_utilization=to_percent(hour.max_utilization),
        min_utilization=to_percent(hour.min_utilization),
        p50_utilization=to_percent(hour.p50),
        p95_utilization=to_percent(hour.p95),
        avg_gpu_memory_used=to_gigabytes(hour.memory_used),
        max_gpu_memory_used=to_gigabytes(hour.max_memory),
        avg_gpu_memory_total=to_gigabytes(hour.memory_size),
        avg_replica_count=hour.replicas_milli / MILLI,
        max_replica_count=hour.max_replicas,
        min_replica_count=hour.min_replicas,
        workload_status=to_status(hour.phase),
        sample_count=hour.samples,
        owner_uid=hour.uid,
        owner_name=hour.slug,
        labels=hour.labels,
        annotations=hour.annotations,
        created_at=format_time(hour.created_at),
        updated_at=format_time(hour.updated_at),
    )
