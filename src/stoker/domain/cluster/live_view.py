"""The live view of a cluster: its controller writes it to the store every tick, and the API only reads it.

Each kind is stored and versioned separately, so that readers load only the kind they need.
"""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.cluster.gpu_metric import GpuMetric

MAX_TOP_GPUS = 100
"""Number of top GPUs kept for each metric."""


class LiveViewKind(StrEnum):
    OVERVIEW = "overview"
    CONSUMERS = "consumers"
    NODES = "nodes"
    GPUS = "gpus"


class GpuState(StrEnum):
    IDLE = "idle"
    ALLOCATED = "allocated"
    FAULTY = "faulty"


class NodeState(StrEnum):
    IDLE = "idle"
    PARTIAL = "partial"
    BUSY = "busy"
    FAULTY = "faulty"


class CollectorStatus(Struct, frozen=True):
    """State of the collector. `read_at` is the time of the last samples, None if there are none since `asked_at`, the
    first attempt. `message` describes a failure."""

    name: str
    read_at: int | None
    stale: bool
    message: str = ""
    asked_at: int | None = None


class TopGpu(Struct, frozen=True, gc=False):
    node: str
    device: int
    model: str
    value: float


class ClusterSummary(Struct, frozen=True):
    """Totals of a cluster. Node counts are of nodes with GPUs, except `cpu_nodes` and `faulty_cpu_nodes`.

    `gpus`, `allocated_milli` and `allocated_gpus` count every GPU; the last three fields count the unschedulable ones
    as `count_gpus` does; `healthy_*` fields are of healthy nodes. `utilization_sum` is over the
    `measured_gpus` allocated GPUs with a sample, so that clusters can be added up. `power_watts` is None if no GPU
    reports it. `hottest` is sorted in descending order; utilization is a fraction.
    """

    at: int
    source: CollectorStatus
    nodes: int
    healthy_nodes: int
    faulty_nodes: int
    idle_nodes: int
    partial_nodes: int
    busy_nodes: int
    gpus: int
    allocated_milli: int
    allocated_gpus: int
    measured_gpus: int
    utilization_sum: float
    power_watts: float | None
    storage_total_bytes: int
    storage_used_bytes: int
    rdma_ports: int
    rdma_active_ports: int
    rdma_bits_per_second: int
    hottest: dict[GpuMetric, list[TopGpu]]
    cpu_nodes: int = 0
    faulty_cpu_nodes: int = 0
    rdma_received_bytes_per_second: int = 0
    rdma_sent_bytes_per_second: int = 0
    healthy_gpus: int = 0
    healthy_allocated_milli: int = 0
    faulty_gpus: int = 0
    not_ready_gpus: int = 0
    cordoned_gpus: int = 0


class GpuConsumer(Struct, frozen=True, gc=False):
    """A running workload with GPUs. `utilization` is the current mean of its GPUs, None without samples."""

    uid: str
    slug: str
    name: str
    kind: str
    namespace: str
    gpu_milli: int
    utilization: float | None
    memory: float | None
    power_watts: float | None
    idle_since: int | None
    """Since when all of its GPUs have been idle."""


class LiveNode(Struct, frozen=True, gc=False):
    """A node. GPU metrics cover its GPUs with a sample. RDMA rates are totals of its ports, None if unknown."""

    name: str
    pool: str
    models: tuple[str, ...]
    gpus: int
    allocated_milli: int
    pods: int
    cpu_milli: int
    cpu_allocated_milli: int
    memory_bytes: int
    memory_allocated_bytes: int
    ready: bool
    cordoned: bool
    fault: str
    utilization: float | None
    memory: float | None
    power_watts: float | None
    temperature: float | None
    labels: dict[str, str]
    rdma_received_bytes_per_second: int | None = None
    rdma_sent_bytes_per_second: int | None = None
    faulty_gpus: int = 0
    schedulable_gpus: int = 0
    """GPUs available to the scheduler, allocated or not."""

    @property
    def is_healthy(self) -> bool:
        """Whether the node is ready and neither the node nor one of its GPUs has a fault."""
        return self.ready and not self.fault


class GpuColumns(Struct, frozen=True):
    """All GPUs in columns, ordered by node and device. Unknown values are None."""

    node: list[str]
    device: list[int]
    model: list[str]
    workload: list[str | None]
    """Slug of the workload on the GPU, or of the first of several."""
    allocated_milli: list[int]
    fault: list[str]
    utilization: list[float | None]
    memory_used_bytes: list[int | None]
    memory_total_bytes: list[int]
    power_watts: list[float | None]
    temperature: list[float | None]
    idle_since: list[int | None] = []
    """Since when the GPU has been idle in its current allocation; None if it is not idle."""
    shared: list[tuple[int, str, int, int | None]] = []
    """Further workloads on shared GPUs: index in the lists, slug, milli-GPUs, idle since."""
    uuid: list[str] = []
    """Empty for a GPU without one."""
