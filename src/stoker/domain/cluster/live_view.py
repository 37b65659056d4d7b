"""What a cluster looks like now: made by its controller once a tick, kept in the store, and only read by the API.

Each part is kept and versioned by itself, so that whoever needs one part reads no other.
"""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.readings import Metric

TOP_GPUS = 100
"""How many of the hottest GPUs are kept for each metric."""


class Part(StrEnum):
    OVERVIEW = "overview"
    CONSUMERS = "consumers"
    NODES = "nodes"
    GPUS = "gpus"


class SourceState(Struct, frozen=True):
    """How the readings stand. `read_at` is when they were last read, None if never: then they are asked for since
    `asked_at`. `message` says what is wrong."""

    name: str
    read_at: int | None
    stale: bool
    message: str = ""
    asked_at: int | None = None


class HotGpu(Struct, frozen=True, gc=False):
    node: str
    device: int
    model: str
    value: float


class Overview(Struct, frozen=True):
    """Nodes are those with GPUs; the others are `cpu_nodes`, or `faulty_cpu_nodes`. `gpus`, `allocated_milli` and
    `allocated_gpus` count healthy nodes only. `utilization_sum` is over the allocated GPUs that have a reading,
    `measured_gpus` of them, so that clusters can be added up. `power_watts` is None when no GPU says it. `hottest` is
    sorted, highest first, and holds utilization as a fraction of one."""

    at: int
    source: SourceState
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
    hottest: dict[Metric, list[HotGpu]]
    cpu_nodes: int = 0
    faulty_cpu_nodes: int = 0


class Consumer(Struct, frozen=True, gc=False):
    """A running workload that holds GPUs. `utilization` is the mean of its GPUs now, None without a reading."""

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
    """Since when all its GPUs have been idle."""


class NodeNow(Struct, frozen=True, gc=False):
    """`utilization` and the others are of all GPUs of the node that have a reading."""

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


class GpuColumns(Struct, frozen=True):
    """One place in every list is one GPU, by node and device. Values that are not known are None."""

    node: list[str]
    device: list[int]
    model: list[str]
    workload: list[str | None]
    """The slug of the workload that holds it, or the first of several."""
    allocated_milli: list[int]
    fault: list[str]
    utilization: list[float | None]
    memory_used_bytes: list[int | None]
    memory_total_bytes: list[int]
    power_watts: list[float | None]
    temperature: list[float | None]
    idle_since: list[int | None] = []
    """Since when it has been idle in the hands of this workload; None when it is not."""
    shared: list[tuple[int, str, int, int | None]] = []
    """What others hold of a GPU that several share: its place in the lists, their slug, milli-GPUs, since when idle."""
