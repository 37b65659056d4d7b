"""What the clusters look like now: overview, consumers, nodes and GPUs. Open to whoever may monitor."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Page, PageParams, Search, Time, moment, paged
from stoker.api.params import Params
from stoker.api.staleness import mark_stale
from stoker.domain.errors import ErrorCode
from stoker.domain.fleet import Fleet, together
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing
from stoker.domain.live import Consumer, NodeNow
from stoker.domain.permissions import Action
from stoker.domain.resources import MILLI
from stoker.services.grids import GpuNow, GpuQuery, GpuState, GridSort, NodeQuery, NodeState, node_state
from stoker.services.live import ClusterNow, overviews

DIGITS = 4
ClusterName = Annotated[str, Meta(max_length=200, description="Only of this cluster, by name or id.")]
Fraction = Annotated[float, Meta(description="0 to 1.")]


class OverviewParams(Params, frozen=True, kw_only=True):
    cluster: ClusterName = ""


class ConsumerParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    cluster: ClusterName = ""


class GridParams(ConsumerParams, frozen=True, kw_only=True, rename="camel"):
    sort: GridSort = GridSort.NAME
    order: Literal["asc", "desc"] = "asc"


class NodeParams(GridParams, frozen=True, kw_only=True, rename="camel"):
    name: Search = ""
    pool: Annotated[str, Meta(max_length=200)] = ""
    state: NodeState | None = None


class GpuParams(GridParams, frozen=True, kw_only=True, rename="camel"):
    node: Annotated[str, Meta(max_length=300, description="The whole name of a node.")] = ""
    model: Search = ""
    workload: Annotated[str, Meta(max_length=200, description="Part of a workload's id, in any case.")] = ""
    state: GpuState | None = None


class FleetView(Struct, frozen=True, rename="camel"):
    """A node is idle, partial, busy, one of the `cpuNodes`, which have no GPUs, or faulty. Rates are 0 to 1. Allocation
    and utilization are of healthy nodes; utilization is the mean of the GPUs that are held, and null while nothing is
    known of any of them. `powerWatts` is null when no GPU says it."""

    nodes: int
    healthy_nodes: int
    faulty_nodes: int
    idle_nodes: int
    partial_nodes: int
    busy_nodes: int
    cpu_nodes: int
    gpus: int
    allocated_gpus: float
    allocation_rate: Fraction
    utilization: Fraction | None
    power_watts: float | None
    storage_total_bytes: int
    storage_used_bytes: int
    rdma_ports: int
    rdma_active_ports: int
    rdma_bits_per_second: int


class SourceView(Struct, frozen=True, rename="camel"):
    """Where the readings come from; `readAt` is null when there never were any."""

    name: str
    read_at: Time | None
    age_seconds: int | None
    stale: bool
    message: str


class ClusterOverview(Struct, frozen=True, rename="camel"):
    name: str
    engine: str
    simulated: bool
    source: SourceView
    now: FleetView


class OverviewView(Struct, frozen=True, rename="camel"):
    at: Time
    total: FleetView
    clusters: list[ClusterOverview]


class ConsumerView(Struct, frozen=True, rename="camel"):
    """`utilization` and `memory` are means over its GPUs, null without a reading."""

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
    idle_since: Time | None


class NodeView(Struct, frozen=True, rename="camel"):
    cluster: str
    name: str
    state: NodeState
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
    utilization: Fraction | None
    memory: Fraction | None
    power_watts: float | None
    temperature: float | None
    labels: dict[str, str]


class GpuView(Struct, frozen=True, rename="camel"):
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
    idle_since: Time | None


@endpoint(
    "GET",
    "/api/stoker/v1/overview",
    family=NATIVE,
    action=Action.MONITOR,
    params=OverviewParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_overview(call: Call[OverviewParams]) -> OverviewView:
    """All clusters added up and one by one, with where their readings come from and how old they are."""
    clusters = await call.services.live.clusters(call.params.cluster)
    mark_stale(call, clusters)
    at = moment(call.services.clock.now()) or ""
    return OverviewView(at, fleet_view(together(overviews(clusters))), [_cluster(each) for each in clusters])


@endpoint(
    "GET",
    "/api/stoker/v1/consumers",
    family=NATIVE,
    action=Action.MONITOR,
    params=ConsumerParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_consumers(call: Call[ConsumerParams]) -> Page[ConsumerView]:
    """Running workloads that hold GPUs, most GPUs first."""
    window = call.params.window
    mark_stale(call, await call.services.live.clusters(call.params.cluster))
    found = await call.services.live.consumers(call.params.cluster)
    listing = Listing(found[window.offset : window.offset + window.limit], len(found))
    return paged(listing, window, lambda pair: _consumer(*pair))


@endpoint(
    "GET",
    "/api/stoker/v1/nodes",
    family=NATIVE,
    action=Action.MONITOR,
    params=NodeParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_nodes(call: Call[NodeParams]) -> Page[NodeView]:
    """Nodes with what is given out of them and what they do."""
    asked = call.params
    query = NodeQuery(
        cluster_id=await _mark(call, asked.cluster),
        text=asked.name,
        pool=asked.pool,
        state=asked.state,
        sort=asked.sort,
        descending=asked.order == "desc",
    )
    found = (await call.services.live.nodes()).browse(query, asked.window)
    return paged(found, asked.window, lambda pair: _node(*pair))


@endpoint(
    "GET",
    "/api/stoker/v1/gpus",
    family=NATIVE,
    action=Action.MONITOR,
    params=GpuParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_gpus(call: Call[GpuParams]) -> Page[GpuView]:
    """GPUs with who holds them and what they do."""
    asked = call.params
    query = GpuQuery(
        cluster_id=await _mark(call, asked.cluster),
        node=asked.node,
        model=asked.model,
        workload=asked.workload,
        state=asked.state,
        sort=asked.sort,
        descending=asked.order == "desc",
    )
    return paged((await call.services.live.gpus()).browse(query, asked.window), asked.window, _gpu)


async def _mark(call: Call[NodeParams] | Call[GpuParams], cluster: str) -> str:
    """Say how old the readings are; gives the id of the cluster that is named."""
    clusters = await call.services.live.clusters(cluster)
    mark_stale(call, clusters)
    return clusters[0].cluster.id if cluster else ""


def fleet_view(fleet: Fleet) -> FleetView:
    return FleetView(
        nodes=fleet.nodes + fleet.cpu_nodes + fleet.faulty_cpu_nodes,
        healthy_nodes=fleet.healthy_nodes + fleet.cpu_nodes,
        faulty_nodes=fleet.faulty_nodes + fleet.faulty_cpu_nodes,
        idle_nodes=fleet.idle_nodes,
        partial_nodes=fleet.partial_nodes,
        busy_nodes=fleet.busy_nodes,
        cpu_nodes=fleet.cpu_nodes,
        gpus=fleet.gpus,
        allocated_gpus=fleet.allocated_milli / MILLI,
        allocation_rate=round(fleet.allocation_rate, DIGITS),
        utilization=_rounded(fleet.utilization),
        power_watts=_rounded(fleet.power_watts, 1),
        storage_total_bytes=fleet.storage_total_bytes,
        storage_used_bytes=fleet.storage_used_bytes,
        rdma_ports=fleet.rdma_ports,
        rdma_active_ports=fleet.rdma_active_ports,
        rdma_bits_per_second=fleet.rdma_bits_per_second,
    )


def _cluster(found: ClusterNow) -> ClusterOverview:
    source = found.source
    age = None if found.age_ms is None or source.read_at is None else found.age_ms // 1000
    return ClusterOverview(
        found.cluster.name,
        found.cluster.engine,
        found.cluster.simulated,
        SourceView(source.name, moment(source.read_at), age, source.stale, source.message),
        fleet_view(together(overviews([found]))),
    )


def _consumer(cluster: Cluster, consumer: Consumer) -> ConsumerView:
    return ConsumerView(
        workload_id=consumer.slug,
        uid=consumer.uid,
        name=consumer.name,
        kind=consumer.kind,
        namespace=consumer.namespace,
        cluster=cluster.name,
        gpus=consumer.gpu_milli / MILLI,
        utilization=_rounded(consumer.utilization),
        memory=_rounded(consumer.memory),
        power_watts=_rounded(consumer.power_watts, 1),
        idle_since=moment(consumer.idle_since),
    )


def _node(cluster: Cluster, node: NodeNow) -> NodeView:
    return NodeView(
        cluster=cluster.name,
        name=node.name,
        state=node_state(node),
        pool=node.pool,
        models=node.models,
        gpus=node.gpus,
        allocated_gpus=node.allocated_milli / MILLI,
        pods=node.pods,
        cpus=node.cpu_milli / MILLI,
        allocated_cpus=node.cpu_allocated_milli / MILLI,
        memory_bytes=node.memory_bytes,
        allocated_memory_bytes=node.memory_allocated_bytes,
        ready=node.ready,
        cordoned=node.cordoned,
        fault=node.fault,
        utilization=_rounded(node.utilization),
        memory=_rounded(node.memory),
        power_watts=_rounded(node.power_watts, 1),
        temperature=_rounded(node.temperature, 1),
        labels=node.labels,
    )


def _gpu(gpu: GpuNow) -> GpuView:
    return GpuView(
        cluster=gpu.cluster.name,
        node=gpu.node,
        device=gpu.device,
        model=gpu.model,
        state=gpu.state,
        workload=gpu.workload,
        allocated=gpu.allocated_milli / MILLI,
        fault=gpu.fault,
        utilization=_rounded(gpu.utilization),
        memory_used_bytes=gpu.memory_used_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
        power_watts=_rounded(gpu.power_watts, 1),
        temperature=_rounded(gpu.temperature, 1),
        idle_since=moment(gpu.idle_since),
    )


def _rounded(value: float | None, digits: int = DIGITS) -> float | None:
    return None if value is None else round(value, digits)
