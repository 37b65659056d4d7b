"""The usage ledger: categories, entries and statistics of one closed hour.

Every GPU-second of capacity belongs to one category. Amounts are whole milli-GPU-milliseconds, so sums are exact.
"""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.clock import HOUR_MS

GPU_HOUR = 1000 * HOUR_MS
"""One GPU for one hour, as an amount."""

PER_POD_LABELS = frozenset(
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
"""Labels and annotations that identify single pods or objects; usage is not grouped by them."""


class UsageCategory(StrEnum):
    """Each GPU-second belongs to the first category that applies. UNMEASURED is allocated time without a sample."""

    FAULTY = "faulty"
    FREE = "free"
    STARTING = "starting"
    UNMEASURED = "unmeasured"
    BUSY = "busy"
    IDLE = "idle"


class LedgerEntry(Struct, frozen=True, order=True):
    """An amount of GPU time of one model. `workload_uid` is empty for unallocated time."""

    workload_uid: str
    model: str
    category: UsageCategory
    amount: int


class UtilizationStats(Struct, frozen=True):
    """Utilization over samples, in hundredths of a percent; all 0 without samples. `total` is the sum."""

    samples: int = 0
    total: int = 0
    min: int = 0
    max: int = 0
    p50: float = 0.0
    p95: float = 0.0


class MemoryStats(Struct, frozen=True):
    """GPU memory over samples that report it, in MiB per GPU."""

    samples: int = 0
    used_total: int = 0
    used_max: int = 0
    size_total: int = 0


class ReplicaStats(Struct, frozen=True):
    """Number of concurrent pods with GPUs while there was at least one; `average` is weighted by time."""

    average: float = 0.0
    max: int = 0
    min: int = 0


class WorkloadUsage(Struct, frozen=True):
    """The usage of one workload in an hour: its total allocation, and its peak allocation."""

    uid: str
    allocated: int
    peak_milli: int
    stats: UtilizationStats
    memory: MemoryStats
    replicas: ReplicaStats


class HourUsage(Struct, frozen=True):
    """One hour of a cluster. The entries add up to `capacity`; `gpus` is the peak number of GPUs."""

    at: int
    gpus: int
    capacity: int
    entries: tuple[LedgerEntry, ...]
    workloads: tuple[WorkloadUsage, ...]
    stats: UtilizationStats


class CostOwner(Struct, frozen=True):
    """The workload that a cost is charged to, as of the end of the hour. `requested_milli` is its peak request."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    workspace_id: int
    user_id: str
    phase: str
    requested_milli: int
    labels: dict[str, str]
    annotations: dict[str, str]
