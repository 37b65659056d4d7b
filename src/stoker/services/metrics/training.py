"""Training metrics of a workload: what was parsed from its logs and what its code reported, read as one series."""

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence

from msgspec import Struct

from stoker.domain.errors import bad_request, not_found
from stoker.domain.metric_names import own_name, put
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.points import Curve, Points, curves
from stoker.domain.training import Measured, TrainingPoint
from stoker.domain.workload import Workload
from stoker.services.context import Context, authorise
from stoker.services.visible import visible
from stoker.store import pods, training, workload_list
from stoker.store.base import Transaction
from stoker.store.training import Batch

AT_ONCE = 5_000
SHORT = 20_000
"""Points that are unpacked at once, without a thread."""
AHEAD_MS = 60_000
"""How far the clock of a job may be ahead of ours."""
PUSHED = "push/"
"""Begins the source of what was reported; the pod and the rank that reported it follow, if they are known."""


class Report(Struct, frozen=True):
    """What code says of itself; without a time it is of now. `rank` tells processes of one pod apart."""

    metrics: Mapping[str, float]
    step: int | None = None
    at: int | None = None
    rank: int | None = None


class Training:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def stream(self, uid: str, start: int, end: int) -> AsyncIterator[list[TrainingPoint]]:
        """Every point of a range, by metric, then time, in parts: a long range is never in memory as a whole."""
        found = await self.points(uid, start, end)
        for first in range(0, len(found), AT_ONCE):
            yield list(found.rows(first, first + AT_ONCE))

    async def points(self, uid: str, start: int, end: int, metric: str = "") -> Points:
        """Every point of a range, or those of one metric, by metric, then time."""

        def short(transaction: Transaction) -> Points | None:
            many = training.count(transaction, uid, start, end) > SHORT
            return None if many else training.points(transaction, uid, start, end, metric)

        found = await self._context.store.peek(short)
        if found is None:
            found = await self._context.store.read(lambda tx: training.points(tx, uid, start, end, metric))
        return found

    async def curves(self, actor: Actor, ref: str, start: int, end: int, most: int) -> list[Curve]:
        """Each metric of a workload the caller can see, with at most so many of its points."""

        def query(transaction: Transaction) -> list[Curve]:
            workload = visible(transaction, actor, ref).workload
            return curves(training.points(transaction, workload.uid, start, end), most)

        return await self._context.store.read(query)

    async def report(self, actor: Actor, ref: str, reports: Sequence[Report]) -> None:
        """Keep what code says of itself. The same said again, of the same moment, is one point."""
        now = self._context.clock.now()
        sources = await asyncio.to_thread(_by_source, reports, actor.pod_uid, now)  # each may have names of its own

        def change(transaction: Transaction) -> None:
            workload, attempt = self._reported(transaction, actor, ref)
            training.add(
                transaction, [Batch(workload.uid, source, attempt, measured) for source, measured in sources.items()]
            )

        await self._context.store.write(change)

    def _reported(self, transaction: Transaction, actor: Actor, ref: str) -> tuple[Workload, int]:
        """The workload that is reported on and its attempt: a pod's own, or one that the caller may change."""
        if not actor.pod_uid:
            workload = visible(transaction, actor, ref).workload
            target = Target(workspace_id=workload.workspace_id, owner_id=workload.user_id)
            authorise(actor, Action.TRAINING_REPORT, target)
            return workload, workload.attempt
        workload = _present(transaction, ref)
        pod = pods.get(transaction, actor.pod_uid)
        if pod is None or pod.workload_uid != workload.uid:
            raise not_found("workload", ref)
        return workload, pod.attempt


def _present(transaction: Transaction, ref: str) -> Workload:
    entry = workload_list.find(transaction, ref)
    if entry is None or entry.workload.deleted_at is not None:
        raise not_found("workload", ref)
    return entry.workload


def _by_source(reports: Sequence[Report], pod_uid: str, now: int) -> dict[str, list[Measured]]:
    sources: dict[str, list[Measured]] = {}
    for report in reports:
        rank = "" if report.rank is None else f"/{report.rank}"
        sources.setdefault(f"{PUSHED}{pod_uid}{rank}", []).append(_measured(report, now))
    return sources


def _measured(report: Report, now: int) -> Measured:
    if report.at is not None and report.at > now + AHEAD_MS:
        raise bad_request("at", "it lies in the future. Leave it out, or set the clock of the job.")
    metrics: dict[str, float] = {}
    for raw, value in report.metrics.items():
        name = own_name(raw)
        if not name:
            raise bad_request("metrics", f'"{raw[:40]}" is no name. Use letters, digits and underscores.')
        if not math.isfinite(value):
            raise bad_request(f"metrics.{name}", "it is not a finite number. Leave it out.")
        put(metrics, name, value)
    return Measured(now if report.at is None else report.at, report.step, metrics)
