"""What the server answers about clusters, nodes and GPUs, and about what was measured of a workload."""

from datetime import datetime

from stoker.client.shapes import Shape

Point = tuple[float, int]
"""A value, and when, in epoch milliseconds."""


class FleetNow(Shape, frozen=True):
    """`cpu_nodes` are healthy and have no GPUs. Rates are 0 to 1; `utilization` and `power_watts` are None where
    nothing is known of them."""

    nodes: int
    healthy_nodes: int
    faulty_nodes: int
    idle_nodes: int
    partial_nodes: int
    busy_nodes: int
    cpu_nodes: int
    gpus: int
    allocated_gpus: float
    allocation_rate: float
    utilization: float | None
    power_watts: float | None
    storage_total_bytes: int
    storage_used_bytes: int
    rdma_ports: int
    rdma_active_ports: int
    rdma_bits_per_second: int


class ReadingsSource(Shape, frozen=True):
    name: str
    read_at: datetime | None
    age_seconds: int | None
    stale: bool
    message: str


class ClusterOverview(Shape, frozen=True):
    name: str
    engine: str
    simulated: bool
    source: ReadingsSource
    now: FleetNow


class Overview(Shape, frozen=True):
    at: datetime
    total: FleetNow
    clusters: tuple[ClusterOverview, ...]


class Consumer(Shape, frozen=True):
    """A running workload that holds GPUs; fractions are 0 to 1, None without a reading."""

    workload_id: str
    uid: str
    name: str
    kind: str
    namespace: str
    cluster: str
    gpus: float
    utilization: float | None
    memory: float | None
    power_watts: float | None
    idle_since: datetime | None


class Node(Shape, frozen=True):
    """`state` is idle, partial, busy or faulty."""

    cluster: str
    name: str
    state: str
    pool: str
    models: tuple[str, ...]
    gpus: int
    allocated_gpus: float
    pods: int
    cpus: float
    allocated_cpus: float
    memory_bytes: int
    allocated_memory_bytes: int
    ready: bool
    cordoned: bool
    fault: str
    utilization: float | None
    memory: float | None
    power_watts: float | None
    temperature: float | None
    labels: dict[str, str]


class Gpu(Shape, frozen=True):
    """`state` is idle, allocated or faulty."""

    cluster: str
    node: str
    device: int
    model: str
    state: str
    workload: str | None
    allocated: float
    fault: str
    utilization: float | None
    memory_used_bytes: int | None
    memory_total_bytes: int
    power_watts: float | None
    temperature: float | None
    idle_since: datetime | None = None


class GpuLine(Shape, frozen=True):
    node: str
    device: int
    points: tuple[Point, ...]


class Measured(Shape, frozen=True):
    """Utilization and memory are fractions of one, power is in watts, temperature in degrees Celsius."""

    workload_id: str
    start: datetime
    end: datetime
    step_seconds: int
    utilization: tuple[GpuLine, ...]
    memory: tuple[GpuLine, ...]
    power: tuple[GpuLine, ...]
    temperature: tuple[GpuLine, ...]
    tflops: tuple[Point, ...]
