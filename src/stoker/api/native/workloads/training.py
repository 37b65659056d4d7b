"""Training metrics in the native family: code reports them, and anyone who sees the workload reads them."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from stoker.api.bodies import Body
from stoker.api.endpoint import Call, endpoint
from stoker.api.families import NATIVE
from stoker.api.native.shapes import Time
from stoker.api.native.workloads import Ref, WorkloadPath
from stoker.api.params import Params
from stoker.api.times import optional_instant
from stoker.domain.clock import FOREVER, rfc3339
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import Action
from stoker.domain.points import Curve
from stoker.domain.training import HIGHEST_STEP, LONGEST_NAME, MOST_METRICS
from stoker.services.training import Report

PATH = "/api/stoker/v1/workloads/{name}/training-metrics"
MOST_REPORTS = 1000

MetricName = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_NAME, description="Such as loss or tokens_per_second.")
]


class ReportBody(Body, frozen=True, kw_only=True):
    """Metrics of one moment, and of one step if there is one."""

    step: Annotated[int, Meta(ge=0, lt=HIGHEST_STEP)] | None = None
    at: Annotated[str, Meta(max_length=40, description="RFC 3339; now when left out.")] | None = None
    rank: (
        Annotated[int, Meta(ge=0, lt=2**20, description="Of several ranks that say the same, the first counts.")] | None
    ) = None
    metrics: Annotated[dict[MetricName, float], Meta(min_length=1, max_length=MOST_METRICS)]


Reports = Annotated[list[ReportBody], Meta(min_length=1, max_length=MOST_REPORTS)]


class TrainingParams(Params, frozen=True, kw_only=True):
    name: Ref
    start: Annotated[str, Meta(max_length=40, description="RFC 3339; from the beginning when left out.")] | None = None
    end: Annotated[str, Meta(max_length=40, description="RFC 3339; up to now when left out.")] | None = None
    limit: Annotated[int, Meta(ge=2, le=10_000, description="Points of each metric, evenly chosen.")] = 1000


class PointView(Struct, frozen=True):
    at: Time
    step: int | None
    value: float


class CurveView(Struct, frozen=True):
    """`count` says how many points there are in the range; `points` holds at most `limit` of them."""

    metric: str
    count: int
    points: list[PointView]


class TrainingAnswer(Struct, frozen=True):
    """By the name of the metric."""

    items: list[CurveView]


@endpoint(
    "POST",
    PATH,
    family=NATIVE,
    action=Action.TRAINING_REPORT,
    params=WorkloadPath,
    body=ReportBody | Reports,
    body_example={"step": 100, "metrics": {"loss": 2.31, "samples_per_second": 812.5}},
    status=204,
    errors=(ErrorCode.NOT_FOUND,),
)
async def report_training_metrics(call: Call[WorkloadPath]) -> None:
    """Report metrics of a training run: one report or a list of up to 1000.

    A pod does it with the token in its variable `STOKER_REPORT_TOKEN`, which is good for nothing else. The same report
    with the same time, sent again, changes nothing.
    """
    sent = call.body if isinstance(call.body, list) else [call.body]
    reports = [Report(each.metrics, each.step, optional_instant(each.at, "at"), each.rank) for each in sent]
    await call.services.training.report(call.actor, call.params.name, reports)


@endpoint("GET", PATH, family=NATIVE, action=Action.WORKLOAD_READ, params=TrainingParams)
async def read_training_metrics(call: Call[TrainingParams]) -> TrainingAnswer:
    """Training metrics of a workload: what its code reported, and what was found in its logs."""
    asked = call.params
    start = optional_instant(asked.start, "start") or 0
    end = optional_instant(asked.end, "end")
    found = await call.services.training.curves(
        call.actor, asked.name, start, FOREVER if end is None else end, asked.limit
    )
    return await asyncio.to_thread(_answer, found)  # code may make up a metric for every step


def _answer(found: list[Curve]) -> TrainingAnswer:
    return TrainingAnswer(
        [
            CurveView(each.metric, each.count, [PointView(rfc3339(p.at), p.step, p.value) for p in each.points])
            for each in found
        ]
    )
