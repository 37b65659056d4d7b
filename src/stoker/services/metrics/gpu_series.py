"""What the GPUs of a workload did over a range of time, and what its training code said of itself meanwhile."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np
from msgspec import Struct

from stoker.domain.errors import bad_request
from stoker.domain.monitoring import Watched
from stoker.domain.permissions import Actor
from stoker.domain.points import Points
from stoker.domain.readings import Metric
from stoker.domain.series import MOST_POINTS, GpuLine, Holding, Point, Range, Series
from stoker.domain.training import Canonical
from stoker.services.context import Context
from stoker.services.monitoring import watched
from stoker.services.training import Training
from stoker.services.visible import visible
from stoker.store import monitoring
from stoker.store.base import Transaction

AT_ONCE = 200_000
"""Points that are in memory together."""


class Measured(Struct, frozen=True):
    """A workload, and the GPUs that it held at some time of a range, by node and device."""

    workload: Watched
    span: Range
    holdings: list[Holding]

    @property
    def gpus(self) -> int:
        return len({(each.node, each.device) for each in self.holdings})

    @property
    def points(self) -> int:
        """How many one series has at the most."""
        return (self.span.end - self.span.start) // self.span.step + 1

    def is_large(self, metrics: int) -> bool:
        return self.gpus * self.points * metrics > AT_ONCE

    def name(self, line: GpuLine) -> str:
        """A GPU, and on which node when there are several."""
        several = self.holdings[0].node != self.holdings[-1].node
        return f"{line.node}/GPU-{line.device}" if several else f"GPU-{line.device}"


class Measurements:
    def __init__(self, context: Context, series: Series, training: Training) -> None:
        self._context = context
        self._series = series
        self._training = training

    async def watch(self, ref: str, cluster: str, span: Range) -> Measured | None:
        """For whoever watches the fleet; None when there is no such workload."""

        def find(transaction: Transaction) -> Measured | None:
            workload = watched(transaction, ref, cluster)
            return None if workload is None else _measured(transaction, workload, span)

        return await self._context.store.peek(find)

    async def read(self, actor: Actor, ref: str, span: Range) -> Measured:
        """For those who may see the workload itself."""

        def find(transaction: Transaction) -> Measured:
            workload = watched(transaction, visible(transaction, actor, ref).workload.uid, "")
            if workload is None:
                raise RuntimeError(f"{ref} is visible and cannot be found")
            return _measured(transaction, workload, span)

        return await self._context.store.peek(find)

    async def lines(self, measured: Measured, metrics: Sequence[Metric]) -> Mapping[Metric, list[GpuLine]]:
        """Every line of every metric, by node and device."""
        if not measured.holdings:
            return {}
        return await self._series.gpus(measured.workload.cluster_id, measured.holdings, metrics, measured.span)

    async def stream(self, measured: Measured, metric: Metric) -> AsyncIterator[list[GpuLine]]:
        """The lines of one metric a few at a time, so that a large answer is never in memory as a whole."""
        for holdings in _batches(measured.holdings, max(1, AT_ONCE // measured.points)):
            found = await self._series.gpus(measured.workload.cluster_id, holdings, [metric], measured.span)
            yield found.get(metric, [])

    async def tflops(self, measured: Measured) -> list[Point]:
        """What the training code says it does, at the points of the range."""
        span = measured.span
        first = span.start - span.step + 1
        return on_grid(await self._training.points(measured.workload.uid, first, span.end, Canonical.TFLOPS), span)


def span_of(start: int, end: int, step: int) -> Range:
    """A range in milliseconds that can be answered."""
    if end <= start:
        raise bad_request("end", "it is not after start. Use a time that is later than start.")
    points = (end - start) // step + 1
    if points > MOST_POINTS:
        least = (end - start) // (MOST_POINTS * 1000) + 1
        raise bad_request(
            "step",
            f"a series of this range would have {points} points, and {MOST_POINTS} are the most. "
            f"Use a step of at least {least}, or a shorter range.",
        )
    return Range(start, end, step)


def on_grid(points: Points, span: Range) -> list[Point]:
    """The mean of the values in (t - step, t] at each t of the range; a moment without values has no point."""
    places = -((span.start - points.at) // span.step)
    inside = (places >= 0) & (places <= (span.end - span.start) // span.step)
    found, number = np.unique(places[inside], return_inverse=True)
    means = np.bincount(number, points.value[inside]) / np.bincount(number)
    return list(zip(means.tolist(), (span.start + found * span.step).tolist(), strict=True))


def _measured(transaction: Transaction, workload: Watched, span: Range) -> Measured:
    held = monitoring.holdings(transaction, workload.uid, span.start - span.step, span.end)
    return Measured(workload, span, held)


def _batches(holdings: Sequence[Holding], gpus: int) -> Iterator[list[Holding]]:
    """All holdings of so many GPUs, then those of the next."""
    batch: list[Holding] = []
    for number, (_, held) in enumerate(groupby(holdings, key=lambda each: (each.node, each.device))):
        if number and number % gpus == 0:
            yield batch
            batch = []
        batch += held
    if batch:
        yield batch
