"""The current state of clusters, nodes and GPUs."""

from typing import Annotated

from msgspec import Meta

from stoker.domain.cluster.live_view import GpuState, NodeState
from stoker.wire.base import WireStruct
from stoker.wire.timestamps import Timestamp

Fraction = Annotated[float, Meta(description="0 to 1.")]
ByteRate = Annotated[int, Meta(description="Bytes a second through all RDMA ports, as they were last read.")]


class FleetView(WireStruct, frozen=True):
    """A node is idle, partial, busy, faulty, or one of the `cpuNodes`, which have no GPUs. `gpus` counts all GPUs:
    faulty ones, those on nodes that are not ready or cordoned, and the `schedulableGpus`. Rates are 0 to 1. Utilization
    is the mean over allocated GPUs, null without samples. `powerWatts` is null if no GPU reports it."""

    nodes: int
    healthy_nodes: int
    faulty_nodes: int
    idle_nodes: int
    partial_nodes: int
    busy_nodes: int
    cpu_nodes: int
    gpus: int
    faulty_gpus: int
    not_ready_gpus: int
    cordoned_gpus: int
    schedulable_gpus: int
    allocated_gpus: float
    allocation_rate: Fraction
    utilization: Fraction | None
    power_watts: float | None
    storage_total_bytes: int
    storage_used_bytes: int
    rdma_ports: int
    rdma_active_ports: int
    rdma_bits_per_second: int
    rdma_received_bytes_per_second: ByteRate
    rdma_sent_bytes_per_second: ByteRate


class SourceView(WireStruct, frozen=True):
    """The source of the samples; `readAt` is null if it was never read."""

    name: str
    read_at: Timestamp | None
    age_seconds: int | None
    stale: bool
    message: str


class ClusterOverview(WireStruct, frozen=True):
    name: str
    engine: str
    simulated: bool
    source: SourceView
    now: FleetView
    unreachable_since: Timestamp | None = None
    """Null while the cluster can be reached."""
    unreachable_message: str = ""


class OverviewView(WireStruct, frozen=True):
    at: Timestamp
    total: FleetView
    clusters: tuple[ClusterOverview, ...]


class ConsumerView(WireStruct, frozen=True):
    """`utilization` and `memory` are means over its GPUs, null without samples."""

    workload_id: str
    uid: str
    name: str
    kind: str
    namespace: str
    cluster: str
    gpus: float
    utilization: Fraction | None
    memory: Fraction | None
    power_watts: float | None
    idle_since: Timestamp | None


class NodeView(WireStruct, frozen=True):
    cluster: str
    name: str
    state: NodeState
    pool: str
    models: tuple[str, ...]
    gpus: int
    faulty_gpus: int
    schedulable_gpus: int
    allocated_gpus: float
    pods: int
    cpus: float
    allocated_cpus: float
    memory_bytes: int
    allocated_memory_bytes: int
    ready: bool
    cordoned: bool
    fault: str
    utilization: Fraction | None
    memory: Fraction | None
    power_watts: float | None
    temperature: float | None
    rdma_received_bytes_per_second: ByteRate | None
    rdma_sent_bytes_per_second: ByteRate | None
    labels: dict[str, str]


class GpuView(WireStruct, frozen=True):
    cluster: str
    node: str
    device: int
    model: str
    state: GpuState
    workload: str | None
    allocated: float
    fault: str
    utilization: Fraction | None
    memory_used_bytes: int | None
    memory_total_bytes: int
    power_watts: float | None
    temperature: float | None
    idle_since: Timestamp | None
    uuid: Annotated[str, Meta(description="Identifies the GPU wherever it is; empty if it has none.")] = ""
