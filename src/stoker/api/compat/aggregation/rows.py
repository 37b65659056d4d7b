"""Closed hours as `aggregation` shows them: the fields of its document, in its order."""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import Struct

from stoker.api.aggregation.words import gigabytes, gpus, percent, rate, shown, status
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.resources import MILLI
from stoker.domain.usage import GPU_HOUR, ClusterHour, DimensionHour, NamespaceHour, WorkloadHour

S = TypeVar("S")
T = TypeVar("T")


class Paged(Struct, Generic[T], frozen=True):
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


def paged(found: Listing[S], window: Window, view: Callable[[S], T]) -> Paged[T]:
    return Paged(
        total=found.total,
        page=window.offset // window.limit + 1,
        page_size=window.limit,
        total_pages=-(-found.total // window.limit),
        data=[view(item) for item in found.items],
    )


def cluster_row(cluster: Cluster, hour: ClusterHour) -> ClusterStats:
    return ClusterStats(
        id=hour.id,
        cluster_name=cluster.name,
        stat_hour=shown(hour.hour_at),
        total_gpu_capacity=hour.gpus,
        allocated_gpu_count=gpus(hour.allocated),
        allocation_rate=rate(hour.allocated, hour.gpus * GPU_HOUR),
        avg_utilization=percent(hour.utilization),
        max_utilization=percent(hour.highest),
        min_utilization=percent(hour.lowest),
        p50_utilization=percent(hour.p50),
        p95_utilization=percent(hour.p95),
        sample_count=hour.samples,
        created_at=shown(hour.created_at),
        updated_at=shown(hour.updated_at),
    )


def namespace_row(cluster: Cluster, hour: NamespaceHour) -> NamespaceStats:
    return NamespaceStats(
        id=hour.id,
        cluster_name=cluster.name,
        namespace=hour.namespace,
        stat_hour=shown(hour.hour_at),
        total_gpu_capacity=hour.gpus,
        allocated_gpu_count=gpus(hour.allocated),
        avg_utilization=percent(hour.utilization),
        max_utilization=percent(hour.highest),
        min_utilization=percent(hour.lowest),
        active_workload_count=hour.workloads,
        created_at=shown(hour.created_at),
        updated_at=shown(hour.updated_at),
    )


def label_row(cluster: Cluster, hour: DimensionHour) -> LabelStats:
    return LabelStats(
        id=hour.id,
        cluster_name=cluster.name,
        dimension_type=hour.kind,
        dimension_key=hour.key,
        dimension_value=hour.value,
        stat_hour=shown(hour.hour_at),
        allocated_gpu_count=gpus(hour.allocated),
        avg_utilization=percent(hour.utilization),
        max_utilization=percent(hour.highest),
        min_utilization=percent(hour.lowest),
        active_workload_count=hour.workloads,
        created_at=shown(hour.created_at),
        updated_at=shown(hour.updated_at),
    )


def workload_row(cluster: Cluster, hour: WorkloadHour) -> WorkloadStats:
    return WorkloadStats(
        id=hour.id,
        cluster_name=cluster.name,
        namespace=hour.namespace,
        workload_name=hour.name,
        workload_type=hour.kind,
        stat_hour=shown(hour.hour_at),
        allocated_gpu_count=gpus(hour.allocated),
        requested_gpu_count=hour.requested_milli / MILLI,
        avg_utilization=percent(hour.utilization),
        max_utilization=percent(hour.highest),
        min_utilization=percent(hour.lowest),
        p50_utilization=percent(hour.p50),
        p95_utilization=percent(hour.p95),
        avg_gpu_memory_used=gigabytes(hour.memory_used),
        max_gpu_memory_used=gigabytes(hour.memory_highest),
        avg_gpu_memory_total=gigabytes(hour.memory_size),
        avg_replica_count=hour.replicas_milli / MILLI,
        max_replica_count=hour.replicas_highest,
        min_replica_count=hour.replicas_lowest,
        workload_status=status(hour.phase),
        sample_count=hour.samples,
        owner_uid=hour.uid,
        owner_name=hour.slug,
        labels=hour.labels,
        annotations=hour.annotations,
        created_at=shown(hour.created_at),
        updated_at=shown(hour.updated_at),
    )
