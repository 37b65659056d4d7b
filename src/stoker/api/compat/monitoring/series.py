"""The operations on workloads that read what was measured: metrics and training performance."""

from collections.abc import AsyncIterator

from msgspec import Struct

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import LENS, encode
from stoker.api.lens.params import MetricsParams, TrainingParams
from stoker.api.lens.words import unknown_workload
from stoker.api.staleness import mark_stale
from stoker.api.streams import JSON, LongList, Stream, enveloped, listed
from stoker.domain.errors import bad_request
from stoker.domain.permissions import Action
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Point
from stoker.domain.training import TrainingPoint
from stoker.services.measurements import Measured, span_of

TFLOPS_DIGITS = 4


class GraphSeries(Struct, frozen=True):
    name: str
    points: list[Point]


class GraphConfig(Struct, frozen=True, rename="camel"):
    y_axis_unit: str


class Graph(Struct, frozen=True):
    serial: int
    series: list[GraphSeries]
    config: GraphConfig


class Performance(Struct, frozen=True):
    metric: str
    value: float
    timestamp: int


GRAPHS = (
    ("GPU Utilization", Metric.UTILIZATION, "%"),
    ("GPU Memory Utilization", Metric.MEMORY_USED, "%"),
    ("GPU Power", Metric.POWER, "W"),
)
METRICS = tuple(metric for _, metric, _ in GRAPHS)
TRAINING, TFLOPS = "TrainingPerformance", "TFLOPS"


@endpoint(
    "GET",
    "/api/workloads/{uid}/metrics",
    family=LENS,
    action=Action.MONITOR,
    params=MetricsParams,
    result=dict[str, Graph],
)
async def read_metrics(call: Call[MetricsParams]) -> dict[str, Graph] | Stream:
    """What the GPUs of a workload did, and the TFLOPS it says it does. Points are `[value, unix ms]`.

    A point lies at start + k·step and is the mean of (t - step, t]; a gap has no point. Readings that are older than
    they should be are marked by the header `X-Stoker-Stale`, their age in seconds.
    """
    asked = call.params
    span = span_of(asked.start * 1000, asked.end * 1000, asked.step * 1000)
    measured = await call.services.measurements.watch(asked.uid, asked.cluster, span)
    if measured is None:
        raise unknown_workload(asked.uid)
    mark_stale(call, await call.services.live.clusters(measured.workload.cluster_id))
    if measured.is_large(len(METRICS)):
        return Stream(enveloped(LENS, call.origin.trace_id, _metrics(call, measured)), JSON)
    lines = await call.services.measurements.lines(measured, METRICS)
    graphs = {
        name: Graph(serial, _series(measured, lines.get(metric, [])), GraphConfig(unit))
        for serial, (name, metric, unit) in enumerate(GRAPHS, start=1)
    }
    return {**graphs, TRAINING: await _training(call, measured)}


@endpoint(
    "GET",
    "/api/workloads/{uid}/trainingPerformance",
    family=LENS,
    action=Action.MONITOR,
    params=TrainingParams,
    result=list[Performance],
)
async def read_training(call: Call[TrainingParams]) -> list[Performance] | LongList:
    """What the training code said of itself, by metric, then time."""
    asked = call.params
    if asked.start > asked.end:
        raise bad_request("end", "it is before start. Use a time that is not earlier than start.")
    workload = await call.services.monitoring.identify(asked.uid, asked.cluster)
    if workload is None:
        raise unknown_workload(asked.uid)
    return await listed(call.services.training.stream(workload.uid, asked.start, asked.end), _performance)


async def _training(call: Call[MetricsParams], measured: Measured) -> Graph:
    points = [(round(value, TFLOPS_DIGITS), at) for value, at in await call.services.measurements.tflops(measured)]
    return Graph(len(GRAPHS) + 1, [GraphSeries(TFLOPS, points)] if points else [], GraphConfig(TFLOPS))


def _series(measured: Measured, lines: list[GpuLine]) -> list[GraphSeries]:
    return [GraphSeries(measured.name(line), line.points) for line in lines]


def _performance(point: TrainingPoint) -> Performance:
    return Performance(point.metric, point.value, point.at)


async def _metrics(call: Call[MetricsParams], measured: Measured) -> AsyncIterator[bytes]:
    for serial, (name, metric, unit) in enumerate(GRAPHS, start=1):
        yield b'%b%b:{"serial":%d,"series":[' % (b"{" if serial == 1 else b",", encode(name), serial)
        joint = b""
        async for lines in call.services.measurements.stream(measured, metric):
            if lines:
                yield joint + encode(_series(measured, lines))[1:-1]
                joint = b","
        yield b'],"config":%b}' % encode(GraphConfig(unit))
    yield b",%b:%b}" % (encode(TRAINING), encode(await _training(call, measured)))
