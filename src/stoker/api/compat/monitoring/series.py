"""GPU metrics and training performance of workloads."""

from collections.abc import AsyncIterator

from msgspec import Struct

from stoker.api.compat.monitoring.enums import workload_not_found
from stoker.api.compat.monitoring.params import MonitoringMetricsParams, MonitoringTrainingParams
from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import MONITORING, encode_json
from stoker.api.http.negotiation import JSON_MEDIA_TYPE
from stoker.api.http.streaming import Stream, StreamedList, list_or_stream, wrap_stream
from stoker.api.staleness import STALE_HEADER, mark_stale
from stoker.domain.access.permission_rules import Action
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import bad_request
from stoker.domain.metrics.series import GpuSeries, SeriesPoint, merge_places
from stoker.domain.metrics.training import TrainingPoint
from stoker.services.metrics.gpu_series import WorkloadGpuRange, build_range

TFLOPS_DECIMALS = 4


class GraphSeries(Struct, frozen=True):
    name: str
    points: list[SeriesPoint]


class GraphConfig(Struct, frozen=True, rename="camel"):
    y_axis_unit: str


class Graph(Struct, frozen=True):
    serial: int
    series: list[GraphSeries]
    config: GraphConfig


class TrainingPerformance(Struct, frozen=True):
    metric: str
    value: float
    timestamp: int


GRAPHS = (
    ("GPU Utilization", GpuMetric.UTILIZATION, "%"),
    ("GPU Memory Utilization", GpuMetric.MEMORY_USED, "%"),
    ("GPU Power", GpuMetric.POWER, "W"),
)
GRAPH_METRICS = tuple(metric for _, metric, _ in GRAPHS)
TRAINING_GRAPH, TFLOPS_SERIES = "TrainingPerformance", "TFLOPS"


@endpoint(
    "GET",
    "/api/workloads/{uid}/metrics",
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringMetricsParams,
    result=dict[str, Graph],
    response_headers=(STALE_HEADER,),
)
async def read_metrics(call: Call[MonitoringMetricsParams]) -> dict[str, Graph] | Stream:
    """GPU metrics of a workload, and the TFLOPS that it reports. Points are `[value, unix ms]`.

    A point lies at start + k·step and is the mean of (t - step, t]; a gap has no point. The header `X-Stoker-Stale` is
    set if samples are stale; it has their age in seconds.
    """
    asked = call.params
    span = build_range(asked.start * 1000, asked.end * 1000, asked.step * 1000)
    measured = await call.services.gpu_series.find_for_fleet(call.optional_actor, asked.uid, asked.cluster, span)
    if measured is None:
        raise workload_not_found(asked.uid)
    mark_stale(call, await call.services.live.clusters(measured.workload.cluster_id))
    if measured.is_large(len(GRAPH_METRICS)):
        return Stream(wrap_stream(MONITORING, call.origin.trace_id, _stream_metrics(call, measured)), JSON_MEDIA_TYPE)
    lines = await call.services.gpu_series.read_lines(measured, GRAPH_METRICS)
    graphs = {
        name: Graph(serial, _graph_series(measured, lines.get(metric, [])), GraphConfig(unit))
        for serial, (name, metric, unit) in enumerate(GRAPHS, start=1)
    }
    return {**graphs, TRAINING_GRAPH: await _training_graph(call, measured)}


@endpoint(
    "GET",
    "/api/workloads/{uid}/trainingPerformance",
    family=MONITORING,
    action=Action.MONITOR,
    params=MonitoringTrainingParams,
    result=list[TrainingPerformance],
)
async def read_training(call: Call[MonitoringTrainingParams]) -> list[TrainingPerformance] | StreamedList:
    """Metrics reported by the training code, sorted by metric, then by time."""
    asked = call.params
    if asked.start > asked.end:
        raise bad_request("end", "it is before start. Use a time that is not earlier than start.")
    workload = await call.services.fleet_workloads.find_workload(call.optional_actor, asked.uid, asked.cluster)
    if workload is None:
        raise workload_not_found(asked.uid)
    return await list_or_stream(
        call.services.training.stream_points(workload.uid, asked.start, asked.end), _to_performance
    )


async def _training_graph(call: Call[MonitoringMetricsParams], measured: WorkloadGpuRange) -> Graph:
    points = [(round(value, TFLOPS_DECIMALS), at) for value, at in await call.services.gpu_series.read_tflops(measured)]
    return Graph(len(GRAPHS) + 1, [GraphSeries(TFLOPS_SERIES, points)] if points else [], GraphConfig(TFLOPS_SERIES))


def _graph_series(measured: WorkloadGpuRange, lines: list[GpuSeries]) -> list[GraphSeries]:
    return [GraphSeries(measured.series_name(line), line.points) for line in merge_places(lines)]


def _to_performance(point: TrainingPoint) -> TrainingPerformance:
    return TrainingPerformance(point.metric, point.value, point.at)


async def _stream_metrics(call: Call[MonitoringMetricsParams], measured: WorkloadGpuRange) -> AsyncIterator[bytes]:
    for serial, (name, metric, unit) in enumerate(GRAPHS, start=1):
        yield b'%b%b:{"serial":%d,"series":[' % (b"{" if serial == 1 else b",", encode_json(name), serial)
        joint = b""
        async for lines in call.services.gpu_series.stream_lines(measured, metric):
            if lines:
                yield joint + encode_json(_graph_series(measured, lines))[1:-1]
                joint = b","
        yield b'],"config":%b}' % encode_json(GraphConfig(unit))
    yield b",%b:%b}" % (encode_json(TRAINING_GRAPH), encode_json(await _training_graph(call, measured)))
