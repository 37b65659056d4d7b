"""Closed hours, rolled up per cluster, namespace, label and workload, and the queries for them."""

from enum import StrEnum

from msgspec import Struct


class HourRow(Struct, frozen=True, kw_only=True):
    """Fields of every rollup. Utilization is in hundredths of a percent, `allocated` in milli-GPU-milliseconds."""

    hour_at: int
    allocated: int
    utilization: int
    min_utilization: int
    max_utilization: int
    samples: int
    id: int = 0
    created_at: int = 0
    updated_at: int = 0


class ClusterHour(HourRow, frozen=True, kw_only=True):
    gpus: int
    capacity: int
    p50: int
    p95: int


class NamespaceHour(HourRow, frozen=True, kw_only=True):
    namespace: str
    gpus: int
    """The namespace's quota in whole GPUs, or the GPUs of the cluster."""
    workloads: int


class DimensionHour(HourRow, frozen=True, kw_only=True):
    """The workloads with one value of a label or annotation. `kind` is `label` or `annotation`."""

    kind: str
    key: str
    value: str
    workloads: int


class WorkloadHour(HourRow, frozen=True, kw_only=True):
    """Memory is in bytes per GPU; the average number of replicas is in thousandths."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    phase: str
    requested_milli: int
    p50: int
    p95: int
    memory_used: int
    max_memory: int
    memory_size: int
    replicas_milli: int
    max_replicas: int
    min_replicas: int
    labels: dict[str, str]
    annotations: dict[str, str]


class HourRollups(Struct, frozen=True):
    """One hour at every level."""

    cluster: ClusterHour
    namespaces: tuple[NamespaceHour, ...]
    dimensions: tuple[DimensionHour, ...]
    workloads: tuple[WorkloadHour, ...]


class HourSort(StrEnum):
    TIME = "time"
    UTILIZATION = "utilization"


class HoursQuery(Struct, frozen=True):
    """Selects hours of a cluster, both ends included. Empty strings filter nothing."""

    cluster_id: str
    from_at: int
    to_at: int
    namespace: str = ""
    name: str = ""
    kind: str = ""
    order: HourSort = HourSort.TIME
    descending: bool = False


class DimensionQuery(Struct, frozen=True):
    """Selects hours of workloads with a label or annotation, or with one value of it."""

    cluster_id: str
    from_at: int
    to_at: int
    kind: str
    key: str
    value: str = ""
