"""Cluster overview, GPU consumers and heatmap. Stale samples are shown until there are newer ones; `X-Stoker-Stale` has
their age in seconds."""

from collections.abc import Sequence

from msgspec import Struct

from stoker.api.compat.monitoring.enums import (
    axis_maximum,
    format_gigabits,
    format_terabytes,
    round_up_gpus,
    source_name,
    to_terabytes,
)
from stoker.api.compat.monitoring.params import HeatmapParams, MonitoringClusterParams, MonitoringPageParams
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import MONITORING
from stoker.api.staleness import STALE_HEADER, mark_stale
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.live_view import TopGpu
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode
from stoker.domain.queries.fleet import FleetTotals, sum_clusters, top_gpus
from stoker.services.fleet.live import overviews

RATE_DECIMALS = 4
VALUE_DECIMALS = 2


class StorageStat(Struct, frozen=True, rename="camel"):
    total_capacity: str
    used_capacity: str
    available_capacity: str
    utilization_rate: float


class RdmaClusterStat(Struct, frozen=True, rename="camel"):
    total_ports: int
    active_ports: int
    bandwidth: str


class GpuClusterOverview(Struct, frozen=True, rename="camel"):
    total_nodes: int
    healthy_nodes: int
    faulty_nodes: int
    fully_idle_nodes: int
    partially_idle_nodes: int
    busy_nodes: int
    allocation_rate: float
    utilization: float
    storage_stat: StorageStat
    rdma_cluster_stat: RdmaClusterStat


class GpuStat(Struct, frozen=True, rename="camel"):
    gpu_request: int
    gpu_utilization: float


class TopLevelGpuResource(Struct, frozen=True):
    kind: str
    name: str
    namespace: str
    uid: str
    stat: GpuStat
    pods: None
    source: str


class ConsumerPage(Struct, frozen=True):
    data: list[TopLevelGpuResource]
    total: int


class HeatmapPoint(Struct, frozen=True, rename="camel"):
    node_name: str
    device_id: int
    value: float
    gpu_model: str


class Heatmap(Struct, frozen=True, rename="camel"):
    serial: int
    unit: str
    y_axis_max: int
    y_axis_min: int
    data: list[HeatmapPoint]


class GpuHeatmap(Struct, frozen=True):
    power: Heatmap
    temperature: Heatmap
    utilization: Heatmap


@endpoint(
    "GET",
    "/api/clusters/overview",
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def read_overview(call: Call[MonitoringClusterParams]) -> GpuClusterOverview:
    """Nodes, allocation, utilization, storage and RDMA of all clusters, or of one.

    The header `X-Stoker-Stale` is set if samples are stale; it has their age in seconds.
    """
    clusters = await call.services.visible_fleet.clusters(call.optional_actor, call.params.cluster)
    mark_stale(call, clusters)
    fleet = sum_clusters(overviews(clusters))
    return GpuClusterOverview(
        total_nodes=fleet.nodes,
        healthy_nodes=fleet.healthy_nodes,
        faulty_nodes=fleet.faulty_nodes,
        fully_idle_nodes=fleet.idle_nodes,
        partially_idle_nodes=fleet.partial_nodes,
        busy_nodes=fleet.busy_nodes,
        allocation_rate=round(fleet.healthy_allocation_rate, RATE_DECIMALS),
        utilization=round(fleet.utilization or 0.0, RATE_DECIMALS),
        storage_stat=_storage_stat(fleet),
        rdma_cluster_stat=RdmaClusterStat(
            fleet.rdma_ports, fleet.rdma_active_ports, format_gigabits(fleet.rdma_bits_per_second)
        ),
    )


@endpoint(
    "GET",
    "/api/clusters/consumers",
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringPageParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def list_consumers(call: Call[MonitoringPageParams]) -> ConsumerPage:
    """Running workloads with allocated GPUs, sorted by GPUs in descending order.

    The header `X-Stoker-Stale` is set if samples are stale; it has their age in seconds.
    """
    asked = call.params
    mark_stale(call, await call.services.visible_fleet.clusters(call.optional_actor, asked.cluster))
    found = await call.services.visible_fleet.consumers(call.optional_actor, asked.cluster)
    page = found[asked.page_request.offset : asked.page_request.offset + asked.page_request.limit]
    return ConsumerPage(
        [
            TopLevelGpuResource(
                kind=consumer.kind,
                name=consumer.name,
                namespace=consumer.namespace,
                uid=consumer.uid,
                stat=GpuStat(round_up_gpus(consumer.gpu_milli), round(consumer.utilization or 0.0, RATE_DECIMALS)),
                pods=None,
                source=source_name(cluster.engine),
            )
            for cluster, consumer in page
        ],
        len(found),
    )


@endpoint(
    "GET",
    "/api/clusters/gpuHeatmap",
    family=MONITORING,
    action=Action.MONITOR,
    params=HeatmapParams,
    errors=(ErrorCode.NOT_FOUND,),
    response_headers=(STALE_HEADER,),
)
async def read_heatmap(call: Call[HeatmapParams]) -> GpuHeatmap:
    """The GPUs with the highest power, temperature and utilization, highest first.

    The header `X-Stoker-Stale` is set if samples are stale; it has their age in seconds.
    """
    clusters = await call.services.visible_fleet.clusters(call.optional_actor, call.params.cluster)
    mark_stale(call, clusters)
    published = overviews(clusters)

    def top(metric: GpuMetric) -> list[TopGpu]:
        return top_gpus(published, metric, call.params.top_k)

    return GpuHeatmap(
        power=_to_heatmap(2, "W", 850, 0, top(GpuMetric.POWER)),
        temperature=_to_heatmap(3, "℃", 110, 20, top(GpuMetric.TEMPERATURE)),
        utilization=_to_heatmap(1, "%", 100, 0, top(GpuMetric.UTILIZATION), factor=100),
    )


def _storage_stat(fleet: FleetTotals) -> StorageStat:
    total, used = to_terabytes(fleet.storage_total_bytes), to_terabytes(fleet.storage_used_bytes)
    return StorageStat(
        format_terabytes(total),
        format_terabytes(used),
        format_terabytes(total - used),
        round(fleet.storage_rate, RATE_DECIMALS),
    )


def _to_heatmap(
    serial: int, unit: str, highest: int, lowest: int, gpus: Sequence[TopGpu], *, factor: float = 1
) -> Heatmap:
    data = [HeatmapPoint(gpu.node, gpu.device, round(gpu.value * factor, VALUE_DECIMALS), gpu.model) for gpu in gpus]
    top = axis_maximum(highest, max((point.value for point in data), default=0))
    return Heatmap(serial, unit, top, lowest, data)
