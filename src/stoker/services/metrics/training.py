"""Training metrics of a workload: metrics parsed from its logs and metrics reported by its code, as one series."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Struct

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import bad_request, not_found
from stoker.domain.metrics.metric_names import add_metric, normalize_name
from stoker.domain.metrics.points import MetricCurve, TrainingPoints, downsample_curves
from stoker.domain.metrics.training import TrainingPoint, TrainingSample
from stoker.domain.workload.model import Workload
from stoker.services.access import authorise_for_workload, get_visible
from stoker.services.context import Context
from stoker.store.db.base import Transaction
from stoker.store.telemetry import training
from stoker.store.telemetry.training import TrainingBatch
from stoker.store.workloads import pods, workload_list

POINTS_BATCH_SIZE = 5_000
INLINE_MAX_POINTS = 20_000
"""Up to this number, points are decoded in the event loop."""
MAX_CLOCK_SKEW_MS = 60_000
"""How far the clock of a job may be ahead of the server's."""
PUSH_SOURCE_PREFIX = "push/"
"""Prefix of the source of reported metrics; the pod and the rank follow, if they are known."""


class TrainingMetricsReport(Struct, frozen=True):
    """Metrics reported by training code; `at` None is now. `rank` tells the processes of one pod apart."""

    metrics: Mapping[str, float]
    step: int | None = None
    at: int | None = None
    rank: int | None = None


class TrainingService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def stream_points(self, uid: str, start: int, end: int) -> AsyncIterator[list[TrainingPoint]]:
        """Every point of a range, ordered by metric and time, in batches."""
        points = await self.read_points(uid, start, end)
        for first in range(0, len(points), POINTS_BATCH_SIZE):
            yield list(points.iter_points(first, first + POINTS_BATCH_SIZE))

    async def read_points(self, uid: str, start: int, end: int, metric: str = "") -> TrainingPoints:
        """Every point of a range, of one metric or of all, ordered by metric and time."""

        def read_if_few(transaction: Transaction) -> TrainingPoints | None:
            is_large = training.count_points(transaction, uid, start, end) > INLINE_MAX_POINTS
            return None if is_large else training.read_points(transaction, uid, start, end, metric)

        points = await self._context.store.read_inline(read_if_few)
        if points is None:
            points = await self._context.store.read(lambda tx: training.read_points(tx, uid, start, end, metric))
        return points

    async def read_curves(self, actor: Actor, ref: str, start: int, end: int, max_points: int) -> list[MetricCurve]:
        """Each metric of a workload, downsampled to at most `max_points` points."""

        def query(transaction: Transaction) -> list[MetricCurve]:
            workload = get_visible(transaction, actor, ref).workload
            return downsample_curves(training.read_points(transaction, workload.uid, start, end), max_points)

        return await self._context.store.read(query)

    async def add_reports(self, actor: Actor, ref: str, reports: Sequence[TrainingMetricsReport]) -> None:
        """Store reported metrics. A report that is sent twice for the same time is one point."""
        now = self._context.clock.now()
        # In a thread: every report may bring many metric names to normalize.
        samples_by_source = await asyncio.to_thread(_group_by_source, reports, actor.pod_uid, now)

        def change(transaction: Transaction) -> None:
            workload, attempt = self._authorise_report(transaction, actor, ref)
            training.add_batches(
                transaction,
                [
                    TrainingBatch(workload.uid, source, attempt, samples)
                    for source, samples in samples_by_source.items()
                ],
            )

        await self._context.store.write(change)

    def _authorise_report(self, transaction: Transaction, actor: Actor, ref: str) -> tuple[Workload, int]:
        """The reported workload and its attempt: the pod's own, or one that the caller may report on."""
        if not actor.pod_uid:
            workload = get_visible(transaction, actor, ref).workload
            authorise_for_workload(actor, Action.TRAINING_REPORT, workload)
            return workload, workload.attempt
        workload = _get_workload(transaction, ref)
        pod = pods.get(transaction, actor.pod_uid)
        if pod is None or pod.workload_uid != workload.uid:
            raise not_found("workload", ref)
        return workload, pod.attempt


def _get_workload(transaction: Transaction, ref: str) -> Workload:
    entry = workload_list.find(transaction, ref)
    if entry is None or entry.workload.deleted_at is not None:
        raise not_found("workload", ref)
    return entry.workload


def _group_by_source(
    reports: Sequence[TrainingMetricsReport], pod_uid: str, now: int
) -> dict[str, list[TrainingSample]]:
    samples_by_source: dict[str, list[TrainingSample]] = {}
    for report in reports:
        rank = "" if report.rank is None else f"/{report.rank}"
        samples_by_source.setdefault(f"{PUSH_SOURCE_PREFIX}{pod_uid}{rank}", []).append(_parse_report(report, now))
    return samples_by_source


def _parse_report(report: TrainingMetricsReport, now: int) -> TrainingSample:
    if report.at is not None and report.at > now + MAX_CLOCK_SKEW_MS:
        raise bad_request("at", "it is in the future. Leave it out, or set the clock of the job.")
    metrics: dict[str, float] = {}
    for raw, value in report.metrics.items():
        name = normalize_name(raw)
        if not name:
            raise bad_request("metrics", f'"{raw[:40]}" is not a metric name. Use letters, digits and underscores.')
        if not math.isfinite(value):
            raise bad_request(f"metrics.{name}", "it is not a finite number. Leave it out.")
        add_metric(metrics, name, value)
    return TrainingSample(now if report.at is None else report.at, report.step, metrics)
