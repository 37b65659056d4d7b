"""Ranges of readings, wherever they are kept: in the store, or in Prometheus."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from stoker.domain.readings import Metric

MOST_POINTS = 11_000

Point = tuple[float, int]
"""A value, and when, in epoch milliseconds."""


class Holding(Struct, frozen=True):
    """A GPU that was held from one moment to another; `to_at` is None while it still is."""

    node: str
    device: int
    from_at: int
    to_at: int | None


class Range(Struct, frozen=True):
    """Epoch milliseconds. A point lies at `start + k * step` and is the mean of the readings in (t - step, t]."""

    start: int
    end: int
    step: int


class GpuLine(Struct, frozen=True):
    """One GPU over a range; a moment without readings has no point."""

    node: str
    device: int
    points: list[Point]


class Series(Protocol):
    """Readings of GPUs while they were held, so that nobody sees another one's."""

    async def gpus(
        self, cluster_id: str, holdings: Sequence[Holding], metrics: Sequence[Metric], span: Range
    ) -> Mapping[Metric, list[GpuLine]]:
        """Lines by node and device; MEMORY_USED as a fraction of the GPU's memory."""
        ...
