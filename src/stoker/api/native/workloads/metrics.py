"""The endpoint for GPU metrics of a workload, for callers who may see the workload."""

from typing import Annotated

from msgspec import Meta, structs

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import parse_optional_instant
from stoker.api.native.workloads.operations import WorkloadPath
from stoker.api.staleness import STALE_HEADER, mark_stale
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.series import GpuSeries
from stoker.services.metrics.gpu_series import build_range
from stoker.services.metrics.series_step import check_value_count, default_step_seconds, step_seconds_for_gpus
from stoker.wire.timestamps import to_timestamp
from stoker.wire.workloads import GpuMetricsView, GpuSeriesView

Instant = Annotated[str, Meta(max_length=40, description="RFC 3339.")]


class GpuMetricsParams(WorkloadPath, frozen=True, kw_only=True):
    start: Annotated[Instant, Meta(description="RFC 3339; an hour before the end when left out.")] | None = None
    end: Annotated[Instant, Meta(description="RFC 3339; now when left out.")] | None = None
    step: (
        Annotated[int, Meta(ge=1, le=2**43, description="Seconds between two points; about 120 points when left out.")]
        | None
    ) = None


@endpoint(
    "GET",
    "/api/stoker/v1/workloads/{name}/metrics",
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=GpuMetricsParams,
    response_headers=(STALE_HEADER,),
)
async def read_measurements(call: Call[GpuMetricsParams]) -> GpuMetricsView:
    """GPU metrics of a workload over a range: the mean of each step; a step without samples has no point."""
    params = call.params
    end = parse_optional_instant(params.end, "end")
    end = call.services.clock.now() if end is None else end
    start = parse_optional_instant(params.start, "start")
    start = end - HOUR_MS if start is None else start
    service = call.services.gpu_series
    step = (params.step or default_step_seconds(start, end)) * 1000
    measured = await service.get_for_workload(call.actor, params.name, build_range(start, end, step))
    if params.step is None and measured.is_large(len(GpuMetric)):
        step = step_seconds_for_gpus(start, end, measured.gpu_count) * 1000
        measured = structs.replace(measured, span=build_range(start, end, step))
    check_value_count(measured)
    mark_stale(call, await call.services.live.clusters(measured.workload.cluster_id))
    series = await service.read_lines(measured, tuple(GpuMetric))
    return GpuMetricsView(
        workload_id=measured.workload.slug,
        start=to_timestamp(start),
        end=to_timestamp(end),
        step_seconds=step // 1000,
        utilization=_series_views(series.get(GpuMetric.UTILIZATION, [])),
        memory=_series_views(series.get(GpuMetric.MEMORY_USED, [])),
        power=_series_views(series.get(GpuMetric.POWER, [])),
        temperature=_series_views(series.get(GpuMetric.TEMPERATURE, [])),
        tflops=await service.read_tflops(measured),
    )


def _series_views(series: list[GpuSeries]) -> tuple[GpuSeriesView, ...]:
    return tuple(GpuSeriesView(line.node, line.device, line.points, line.uuid) for line in series)
