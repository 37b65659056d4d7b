"""The operations on clusters: overview, consumers, heatmap. Old readings are shown as long as there are no newer ones,
and `X-Stoker-Stale` says how many seconds old they are."""

from collections.abc import Sequence

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import LENS
from stoker.api.lens.params import ClusterParams, HeatmapParams, PageParams
from stoker.api.lens.words import axis_top, capacity, gigabits, source, terabytes, whole_gpus
from stoker.api.staleness import mark_stale
from stoker.domain.errors import ErrorCode
from stoker.domain.fleet import Fleet, hottest, together
from stoker.domain.live import HotGpu
from stoker.domain.permissions import Action
from stoker.domain.readings import Metric
from stoker.services.live import overviews

RATE_DIGITS = 4
VALUE_DIGITS = 2


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
    family=LENS,
    action=Action.MONITOR,
    params=ClusterParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_overview(call: Call[ClusterParams]) -> GpuClusterOverview:
    """Nodes, allocation, utilization, storage and RDMA of all clusters, or of one.

    Readings that are older than they should be are marked by the header `X-Stoker-Stale`, their age in seconds.
    """
    clusters = await call.services.live.clusters(call.params.cluster)
    mark_stale(call, clusters)
    fleet = together(overviews(clusters))
    return GpuClusterOverview(
        total_nodes=fleet.nodes,
        healthy_nodes=fleet.healthy_nodes,
        faulty_nodes=fleet.faulty_nodes,
        fully_idle_nodes=fleet.idle_nodes,
        partially_idle_nodes=fleet.partial_nodes,
        busy_nodes=fleet.busy_nodes,
        allocation_rate=round(fleet.allocation_rate, RATE_DIGITS),
        utilization=round(fleet.utilization or 0.0, RATE_DIGITS),
        storage_stat=_storage(fleet),
        rdma_cluster_stat=RdmaClusterStat(
            fleet.rdma_ports, fleet.rdma_active_ports, gigabits(fleet.rdma_bits_per_second)
        ),
    )


@endpoint(
    "GET",
    "/api/clusters/consumers",
    family=LENS,
    action=Action.MONITOR,
    params=PageParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def list_consumers(call: Call[PageParams]) -> ConsumerPage:
    """Running workloads that hold GPUs, most GPUs first.

    Readings that are older than they should be are marked by the header `X-Stoker-Stale`, their age in seconds.
    """
    asked = call.params
    mark_stale(call, await call.services.live.clusters(asked.cluster))
    found = await call.services.live.consumers(asked.cluster)
    page = found[asked.window.offset : asked.window.offset + asked.window.limit]
    return ConsumerPage(
        [
            TopLevelGpuResource(
                kind=consumer.kind,
                name=consumer.name,
                namespace=consumer.namespace,
                uid=consumer.uid,
                stat=GpuStat(whole_gpus(consumer.gpu_milli), round(consumer.utilization or 0.0, RATE_DIGITS)),
                pods=None,
                source=source(cluster.engine),
            )
            for cluster, consumer in page
        ],
        len(found),
    )


@endpoint(
    "GET",
    "/api/clusters/gpuHeatmap",
    family=LENS,
    action=Action.MONITOR,
    params=HeatmapParams,
    errors=(ErrorCode.NOT_FOUND,),
)
async def read_heatmap(call: Call[HeatmapParams]) -> GpuHeatmap:
    """The GPUs with the highest power, temperature and utilization, highest first.

    Readings that are older than they should be are marked by the header `X-Stoker-Stale`, their age in seconds.
    """
    clusters = await call.services.live.clusters(call.params.cluster)
    mark_stale(call, clusters)
    published = overviews(clusters)

    def top(metric: Metric) -> list[HotGpu]:
        return hottest(published, metric, call.params.top_k)

    return GpuHeatmap(
        power=_heatmap(2, "W", 850, 0, top(Metric.POWER)),
        temperature=_heatmap(3, "℃", 110, 20, top(Metric.TEMPERATURE)),
        utilization=_heatmap(1, "%", 100, 0, top(Metric.UTILIZATION), factor=100),
    )


def _storage(fleet: Fleet) -> StorageStat:
    total, used = terabytes(fleet.storage_total_bytes), terabytes(fleet.storage_used_bytes)
    return StorageStat(capacity(total), capacity(used), capacity(total - used), round(fleet.storage_rate, RATE_DIGITS))


def _heatmap(
    serial: int, unit: str, highest: int, lowest: int, gpus: Sequence[HotGpu], *, factor: float = 1
) -> Heatmap:
    data = [HeatmapPoint(gpu.node, gpu.device, round(gpu.value * factor, VALUE_DIGITS), gpu.model) for gpu in gpus]
    top = axis_top(highest, max((point.value for point in data), default=0))
    return Heatmap(serial, unit, top, lowest, data)
