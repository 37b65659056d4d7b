"""What the GPUs of a workload did, for those who may see the workload."""

from typing import Annotated

from msgspec import Meta, Struct, structs

from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Time
from stoker.api.native.workloads import WorkloadPath
from stoker.api.staleness import mark_stale
from stoker.api.times import optional_instant
from stoker.domain.clock import HOUR_MS, rfc3339
from stoker.domain.errors import bad_request
from stoker.domain.permissions import Action
from stoker.domain.readings import Metric
from stoker.domain.series import GpuLine, Point
from stoker.services.measurements import AT_ONCE, Measured, span_of

MOST_USUAL_POINTS, LEAST_USUAL_POINTS = 120, 24
"""How many points a series has when nothing is said; the fewer, the more GPUs."""
LEAST_STEP = 15
MOST_VALUES = 10 * AT_ONCE
Instant = Annotated[str, Meta(max_length=40, description="RFC 3339.")]


class MeasureParams(WorkloadPath, frozen=True, kw_only=True):
    start: Annotated[Instant, Meta(description="RFC 3339; an hour before the end when left out.")] | None = None
    end: Annotated[Instant, Meta(description="RFC 3339; now when left out.")] | None = None
    step: (
        Annotated[int, Meta(ge=1, le=2**43, description="Seconds between two points; about 120 points when left out.")]
        | None
    ) = None


class LineView(Struct, frozen=True):
    """One GPU; points are `[value, unix ms]`."""

    node: str
    device: int
    points: list[Point]


class MeasuredView(Struct, frozen=True, rename="camel"):
    """Utilization and memory are fractions of one, power is in watts, temperature in degrees Celsius."""

    workload_id: str
    start: Time
    end: Time
    step_seconds: int
    utilization: list[LineView]
    memory: list[LineView]
    power: list[LineView]
    temperature: list[LineView]
    tflops: list[Point]


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/metrics",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=MeasureParams,
)
async def read_measurements(call: Call[MeasureParams]) -> MeasuredView:
    """The GPUs of a workload over a range: the mean of each step, and no point where there is no reading."""
    asked = call.params
    end = optional_instant(asked.end, "end")
    end = call.services.clock.now() if end is None else end
    start = optional_instant(asked.start, "start")
    start = end - HOUR_MS if start is None else start
    service = call.services.measurements
    step = (asked.step or _step(start, end, MOST_USUAL_POINTS)) * 1000
    measured = await service.read(call.actor, asked.name, span_of(start, end, step))
    if asked.step is None and measured.is_large(len(Metric)):
        step = _step(start, end, max(LEAST_USUAL_POINTS, AT_ONCE // (measured.gpus * len(Metric)))) * 1000
        measured = structs.replace(measured, span=span_of(start, end, step))
    _check_size(measured)
    mark_stale(call, await call.services.live.clusters(measured.workload.cluster_id))
    lines = await service.lines(measured, tuple(Metric))
    return MeasuredView(
        workload_id=measured.workload.slug,
        start=rfc3339(start),
        end=rfc3339(end),
        step_seconds=step // 1000,
        utilization=_views(lines.get(Metric.UTILIZATION, [])),
        memory=_views(lines.get(Metric.MEMORY_USED, [])),
        power=_views(lines.get(Metric.POWER, [])),
        temperature=_views(lines.get(Metric.TEMPERATURE, [])),
        tflops=await service.tflops(measured),
    )


def _step(start: int, end: int, points: int) -> int:
    """Seconds, in whole quarters of a minute."""
    return max(1, -((start - end) // (points * LEAST_STEP * 1000))) * LEAST_STEP


def _check_size(measured: Measured) -> None:
    values = measured.gpus * measured.points * len(Metric)
    if values > MOST_VALUES:
        raise bad_request(
            "step",
            f"{measured.gpus} GPUs of {measured.points} points each are {values} values, and {MOST_VALUES} are "
            "the most. Use a longer step or a shorter range.",
        )


def _views(lines: list[GpuLine]) -> list[LineView]:
    return [LineView(line.node, line.device, line.points) for line in lines]
