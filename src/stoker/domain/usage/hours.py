"""The words of usage: accounts that every GPU-second of capacity lies in, and the hours they are closed for.

Amounts are whole numbers of milli-GPU-milliseconds, so that they add up exactly.
"""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.clock import HOUR_MS

GPU_HOUR = 1000 * HOUR_MS
"""One GPU for one hour, as an amount."""


class Account(StrEnum):
    """Each GPU-second lies in the first of these that holds. UNMEASURED is held without a reading."""

    FAULTY = "faulty"
    FREE = "free"
    STARTING = "starting"
    UNMEASURED = "unmeasured"
    BUSY = "busy"
    IDLE = "idle"


class Entry(Struct, frozen=True, order=True):
    """A line of the ledger: an amount of GPUs of one model. `payer` is the uid of the workload that held them, empty
    when nobody did."""

    payer: str
    model: str
    account: Account
    amount: int


class Stats(Struct, frozen=True):
    """Utilisation over samples, in hundredths of a percent; all 0 without samples. `total` is their sum."""

    samples: int = 0
    total: int = 0
    lowest: int = 0
    highest: int = 0
    p50: float = 0.0
    p95: float = 0.0


class MemoryStats(Struct, frozen=True):
    """GPU memory over samples that have it, in MiB a GPU."""

    samples: int = 0
    used_total: int = 0
    used_highest: int = 0
    size_total: int = 0


class Replicas(Struct, frozen=True):
    """How many pods held GPUs at once, while any did; `average` is weighted by time."""

    average: float = 0.0
    highest: int = 0
    lowest: int = 0


class Use(Struct, frozen=True):
    """What one workload had of an hour: all its accounts together, and the most that it held at once."""

    uid: str
    allocated: int
    peak_milli: int
    stats: Stats
    memory: MemoryStats
    replicas: Replicas


class HourUse(Struct, frozen=True):
    """A cluster's hour. The entries add up to the capacity's time; `gpus` is the most that were there at once."""

    at: int
    gpus: int
    capacity: int
    entries: tuple[Entry, ...]
    uses: tuple[Use, ...]
    stats: Stats


class Payer(Struct, frozen=True):
    """Whose workload it is, as it was when the hour was closed. `requested_milli` is what it asked for."""

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


class HourRow(Struct, frozen=True, kw_only=True):
    """What every level tells of an hour. Utilisation is in hundredths of a percent, the amount in
    milli-GPU-milliseconds."""

    hour_at: int
    allocated: int
    utilization: int
    lowest: int
    highest: int
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
    """The namespace's quota in whole GPUs, or what the cluster has."""
    workloads: int


class DimensionHour(HourRow, frozen=True, kw_only=True):
    """The workloads that carry one label, or one annotation. `kind` is `label` or `annotation`."""

    kind: str
    key: str
    value: str
    workloads: int


class WorkloadHour(HourRow, frozen=True, kw_only=True):
    """Memory is in bytes a GPU; replicas in thousandths where they are an average."""

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
    memory_highest: int
    memory_size: int
    replicas_milli: int
    replicas_highest: int
    replicas_lowest: int
    labels: dict[str, str]
    annotations: dict[str, str]


class Levels(Struct, frozen=True):
    """One hour as it is told, at every level."""

    cluster: ClusterHour
    namespaces: tuple[NamespaceHour, ...]
    dimensions: tuple[DimensionHour, ...]
    workloads: tuple[WorkloadHour, ...]


class HoursOrder(StrEnum):
    TIME = "time"
    UTILIZATION = "utilization"


class HoursQuery(Struct, frozen=True):
    """Hours of a cluster, both ends included. Empty words and None filter nothing."""

    cluster_id: str
    from_at: int
    to_at: int
    namespace: str = ""
    name: str = ""
    kind: str = ""
    order: HoursOrder = HoursOrder.TIME
    descending: bool = False


class DimensionQuery(Struct, frozen=True):
    """Hours of everything that carries a label or an annotation, or one value of it."""

    cluster_id: str
    from_at: int
    to_at: int
    kind: str
    key: str
    value: str = ""


class SnapshotWorkload(Struct, frozen=True):
    """A workload that held GPUs; `utilization` is a fraction of one, None without a reading."""

    uid: str
    name: str
    namespace: str
    kind: str
    gpu_milli: int
    utilization: float | None
    annotations: dict[str, str]


class Snapshot(Struct, frozen=True):
    """Who held what at one moment. `workloads` is None where it was not asked for."""

    id: int
    at: int
    gpus: int
    allocated_milli: int
    workloads: list[SnapshotWorkload] | None
    created_at: int
