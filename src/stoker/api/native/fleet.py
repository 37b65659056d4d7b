"""Endpoints for the current state of clusters: overview, GPU consumers, nodes and GPUs."""

from typing import Annotated, Literal

from msgspec import Meta

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import Params
from stoker.api.native.mapping import to_page_view
from stoker.api.native.params import ClusterName, NameSearch, PageParams
from stoker.api.staleness import STALE_HEADER, mark_stale
from stoker.domain.access.identity import Cluster
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.live_view import GpuConsumer, GpuState, LiveNode, NodeState
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.fleet import FleetTotals, sum_clusters
from stoker.domain.queries.pages import PageResult
from stoker.services.fleet.columns import GridSort
from stoker.services.fleet.gpu_grid import GpuGridRow, GpuQuery
from stoker.services.fleet.live import ClusterLiveStatus, overviews
from stoker.services.fleet.node_grid import NodeQuery, node_state
from stoker.wire.fleet import ClusterOverview, ConsumerView, FleetView, GpuView, NodeView, OverviewView, SourceView
from stoker.wire.pages import PageView
from stoker.wire.timestamps import to_optional_timestamp, to_timestamp

RATE_DECIMALS = 4


class OverviewParams(Params, frozen=True, kw_only=True):
    cluster: ClusterName = ""


class ConsumerParams(PageParams, frozen=True, kw_only=True, rename="camel"):
    cluster: ClusterName = ""


class FleetListParams(ConsumerParams, frozen=True, kw_only=True, rename="camel"):
    sort: GridSort = GridSort.NAME
    order: Literal["asc", "desc"] = "asc"


class NodeParams(FleetListParams, frozen=True, kw_only=True, rename="camel"):
    name: NameSearch = ""
    pool: Annotated[str, Meta(max_length=200)] = ""
    state: NodeState | None = None


class GpuParams(FleetListParams, frozen=True, kw_only=True, rename="camel"):
    node: Annotated[str, Meta(max_length=300, description="The whole name of a node.")] = ""
    model: NameSearch = ""
    workload: Annotated[str, Meta(max_length=200, description="Part of a workload's id, in any case.")] = ""
    state: GpuState | None = None


@endpoint(
    "GET",
    "/api/stoker/v1/overview",
    family=NATIVE,
    action=Action.MONITOR,
    params=OverviewParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def read_overview(call: Call[OverviewParams]) -> OverviewView:
    """Totals over all clusters and for each one, with the source and age of their samples."""
    clusters = await call.services.visible_fleet.clusters(call.optional_actor, call.params.cluster)
    mark_stale(call, clusters)
    return OverviewView(
        to_timestamp(call.services.clock.now()),
        fleet_view(sum_clusters(overviews(clusters))),
        tuple(_cluster_overview(cluster) for cluster in clusters),
    )


@endpoint(
    "GET",
    "/api/stoker/v1/consumers",
    family=NATIVE,
    action=Action.MONITOR,
    params=ConsumerParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def list_consumers(call: Call[ConsumerParams]) -> PageView[ConsumerView]:
    """Running workloads with allocated GPUs, most GPUs first."""
    page = call.params.page_request
    mark_stale(call, await call.services.live.clusters(call.params.cluster))
    consumers = await call.services.visible_fleet.consumers(call.optional_actor, call.params.cluster)
    result = PageResult(consumers[page.offset : page.offset + page.limit], len(consumers))
    return to_page_view(result, page, lambda pair: _consumer_view(*pair))


@endpoint(
    "GET",
    "/api/stoker/v1/nodes",
    family=NATIVE,
    action=Action.MONITOR,
    params=NodeParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def list_nodes(call: Call[NodeParams]) -> PageView[NodeView]:
    """Nodes with their allocation and utilization."""
    params = call.params
    query = NodeQuery(
        cluster_id=await _mark_stale_cluster(call, params.cluster),
        text=params.name,
        pool=params.pool,
        state=params.state,
        sort=params.sort,
        descending=params.order == "desc",
    )
    found = (await call.services.live.nodes()).list_nodes(query, params.page_request)
    return to_page_view(found, params.page_request, lambda pair: _node_view(*pair))


@endpoint(
    "GET",
    "/api/stoker/v1/gpus",
    family=NATIVE,
    action=Action.MONITOR,
    params=GpuParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def list_gpus(call: Call[GpuParams]) -> PageView[GpuView]:
    """GPUs with their workload and utilization."""
    params = call.params
    query = GpuQuery(
        cluster_id=await _mark_stale_cluster(call, params.cluster),
        node=params.node,
        model=params.model,
        workload=params.workload,
        state=params.state,
        sort=params.sort,
        descending=params.order == "desc",
    )
    return to_page_view(
        (await call.services.visible_fleet.gpus(call.optional_actor)).list_gpus(query, params.page_request),
        params.page_request,
        _gpu_view,
    )


async def _mark_stale_cluster(call: Call[NodeParams] | Call[GpuParams], cluster: str) -> str:
    """Set the staleness headers; returns the id of the named cluster, or an empty text without a name."""
    clusters = await call.services.live.clusters(cluster)
    mark_stale(call, clusters)
    return clusters[0].cluster.id if cluster else ""


def fleet_view(fleet: FleetTotals) -> FleetView:
    return FleetView(
        nodes=fleet.nodes + fleet.cpu_nodes + fleet.faulty_cpu_nodes,
        healthy_nodes=fleet.healthy_nodes + fleet.cpu_nodes,
        faulty_nodes=fleet.faulty_nodes + fleet.faulty_cpu_nodes,
        idle_nodes=fleet.idle_nodes,
        partial_nodes=fleet.partial_nodes,
        busy_nodes=fleet.busy_nodes,
        cpu_nodes=fleet.cpu_nodes,
        gpus=fleet.gpus,
        faulty_gpus=fleet.faulty_gpus,
        not_ready_gpus=fleet.not_ready_gpus,
        cordoned_gpus=fleet.cordoned_gpus,
        schedulable_gpus=fleet.schedulable_gpus,
        allocated_gpus=fleet.allocated_milli / MILLI,
        allocation_rate=round(fleet.allocation_rate, RATE_DECIMALS),
        utilization=_round_optional(fleet.utilization),
        power_watts=_round_optional(fleet.power_watts, 1),
        storage_total_bytes=fleet.storage_total_bytes,
        storage_used_bytes=fleet.storage_used_bytes,
        rdma_ports=fleet.rdma_ports,
        rdma_active_ports=fleet.rdma_active_ports,
        rdma_bits_per_second=fleet.rdma_bits_per_second,
        rdma_received_bytes_per_second=fleet.rdma_received_bytes_per_second,
        rdma_sent_bytes_per_second=fleet.rdma_sent_bytes_per_second,
    )


def _cluster_overview(status: ClusterLiveStatus) -> ClusterOverview:
    source = status.source
    age = None if status.age_ms is None or source.read_at is None else status.age_ms // 1000
    return ClusterOverview(
        status.cluster.name,
        status.cluster.engine,
        status.cluster.is_simulated,
        SourceView(source.name, to_optional_timestamp(source.read_at), age, source.stale, source.message),
        fleet_view(sum_clusters(overviews([status]))),
        to_optional_timestamp(status.cluster.unreachable_since),
        status.cluster.unreachable_message,
    )


def _consumer_view(cluster: Cluster, consumer: GpuConsumer) -> ConsumerView:
    return ConsumerView(
        workload_id=consumer.slug,
        uid=consumer.uid,
        name=consumer.name,
        kind=consumer.kind,
        namespace=consumer.namespace,
        cluster=cluster.name,
        gpus=consumer.gpu_milli / MILLI,
        utilization=_round_optional(consumer.utilization),
        memory=_round_optional(consumer.memory),
        power_watts=_round_optional(consumer.power_watts, 1),
        idle_since=to_optional_timestamp(consumer.idle_since),
    )


def _node_view(cluster: Cluster, node: LiveNode) -> NodeView:
    return NodeView(
        cluster=cluster.name,
        name=node.name,
        state=node_state(node),
        pool=node.pool,
        models=node.models,
        gpus=node.gpus,
        faulty_gpus=node.faulty_gpus,
        schedulable_gpus=node.schedulable_gpus,
        allocated_gpus=node.allocated_milli / MILLI,
        pods=node.pods,
        cpus=node.cpu_milli / MILLI,
        allocated_cpus=node.cpu_allocated_milli / MILLI,
        memory_bytes=node.memory_bytes,
        allocated_memory_bytes=node.memory_allocated_bytes,
        ready=node.ready,
        cordoned=node.cordoned,
        fault=node.fault,
        utilization=_round_optional(node.utilization),
        memory=_round_optional(node.memory),
        power_watts=_round_optional(node.power_watts, 1),
        temperature=_round_optional(node.temperature, 1),
        rdma_received_bytes_per_second=node.rdma_received_bytes_per_second,
        rdma_sent_bytes_per_second=node.rdma_sent_bytes_per_second,
        labels=node.labels,
    )


def _gpu_view(gpu: GpuGridRow) -> GpuView:
    return GpuView(
        cluster=gpu.cluster.name,
        node=gpu.node,
        device=gpu.device,
        model=gpu.model,
        state=gpu.state,
        workload=gpu.workload,
        allocated=gpu.allocated_milli / MILLI,
        fault=gpu.fault,
        utilization=_round_optional(gpu.utilization),
        memory_used_bytes=gpu.memory_used_bytes,
        memory_total_bytes=gpu.memory_total_bytes,
        power_watts=_round_optional(gpu.power_watts, 1),
        temperature=_round_optional(gpu.temperature, 1),
        idle_since=to_optional_timestamp(gpu.idle_since),
        uuid=gpu.uuid,
    )


def _round_optional(value: float | None, digits: int = RATE_DECIMALS) -> float | None:
    return None if value is None else round(value, digits)
