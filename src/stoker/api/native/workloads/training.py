"""Endpoints for training metrics: code reports them, and anyone who sees the workload reads them."""

import asyncio
from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from stoker.api.http.endpoint import Call, endpoint
from stoker.api.http.families import NATIVE, encode_json
from stoker.api.http.params import Params, parse_optional_instant
from stoker.api.http.streaming import JSON_MEDIA_TYPE
from stoker.api.native.workloads.operations import WorkloadPath, WorkloadRef
from stoker.domain.access.permission_rules import Action
from stoker.domain.clock import MAX_TIMESTAMP_MS
from stoker.domain.errors import ErrorCode
from stoker.domain.metrics.points import MetricCurve
from stoker.services.metrics.training import TrainingMetricsReport
from stoker.wire.timestamps import to_timestamp
from stoker.wire.workloads import MetricPoint, TrainingCurve, TrainingMetrics, TrainingReport

TRAINING_METRICS_PATH = "/api/stoker/v1/workloads/{name}/training-metrics"
MAX_REPORTS = 1000


ReportList = Annotated[list[TrainingReport], Meta(min_length=1, max_length=MAX_REPORTS)]


class TrainingParams(Params, frozen=True, kw_only=True):
    name: WorkloadRef
    start: Annotated[str, Meta(max_length=40, description="RFC 3339; from the beginning when left out.")] | None = None
    end: Annotated[str, Meta(max_length=40, description="RFC 3339; up to now when left out.")] | None = None
    limit: Annotated[int, Meta(ge=2, le=10_000, description="Points of each metric, evenly chosen.")] = 1000


@endpoint(
    "POST",
    TRAINING_METRICS_PATH,
    family=NATIVE,
    action=Action.TRAINING_REPORT,
    params=WorkloadPath,
    body=TrainingReport | ReportList,
    body_example={"step": 100, "metrics": {"loss": 2.31, "samples_per_second": 812.5}},
    status=204,
    errors=(ErrorCode.NOT_FOUND,),
)
async def report_training_metrics(call: Call[WorkloadPath]) -> None:
    """Report metrics of a training run: one report or a list of up to 1000.

    A pod uses the token in its variable `STOKER_REPORT_TOKEN`, which permits nothing else. Sending a report with the
    same time again changes nothing.
    """
    bodies: list[TrainingReport] = call.body if isinstance(call.body, list) else [call.body]
    reports = [
        TrainingMetricsReport(body.metrics, body.step, parse_optional_instant(body.at, "at"), body.rank)
        for body in bodies
    ]
    await call.services.training.add_reports(call.actor, call.params.name, reports)


@endpoint(
    "GET",
    TRAINING_METRICS_PATH,
    family=NATIVE,
    action=Action.WORKLOAD_READ,
    params=TrainingParams,
    result=TrainingMetrics,
)
async def read_training_metrics(call: Call[TrainingParams]) -> Response:
    """Training metrics of a workload that its code reported or that were found in its logs."""
    params = call.params
    start = parse_optional_instant(params.start, "start") or 0
    end = parse_optional_instant(params.end, "end")
    curves = await call.services.training.read_curves(
        call.actor, params.name, start, MAX_TIMESTAMP_MS if end is None else end, params.limit
    )
    # A run may report a new metric at every step, so encoding the curves can take long.
    return Response(await asyncio.to_thread(_encode_curves, curves), media_type=JSON_MEDIA_TYPE)


def _encode_curves(curves: list[MetricCurve]) -> bytes:
    return encode_json(
        TrainingMetrics(
            tuple(
                TrainingCurve(
                    curve.metric,
                    curve.count,
                    tuple(MetricPoint(to_timestamp(point.at), point.step, point.value) for point in curve.points),
                )
                for curve in curves
            )
        )
    )
