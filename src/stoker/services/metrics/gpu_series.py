"""GPU metric series of a workload over a range of time, and its reported training throughput on the same grid."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np
from msgspec import Struct

from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import bad_request
from stoker.domain.metrics.points import TrainingPoints
from stoker.domain.metrics.series import (
    MAX_POINTS,
    DeviceAllocation,
    GpuSeries,
    RangeBackend,
    SeriesPoint,
    TimeRange,
    last_places,
)
from stoker.domain.metrics.training import CanonicalMetric
from stoker.domain.queries.workload_records import FleetWorkload
from stoker.services.access import get_visible, visible_workspaces
from stoker.services.context import Context
from stoker.services.fleet.fleet_workloads import find_visible_workload
from stoker.services.metrics.training import TrainingService
from stoker.store.db.base import Transaction
from stoker.store.workloads import fleet_workloads

MAX_POINTS_IN_MEMORY = 200_000
"""Larger results are streamed."""


class WorkloadGpuRange(Struct, frozen=True):
    """A workload, and its GPU allocations in a range, ordered by node and device."""

    workload: FleetWorkload
    span: TimeRange
    allocations: list[DeviceAllocation]

    @property
    def gpu_count(self) -> int:
        return len({allocation.gpu.key for allocation in self.allocations})

    @property
    def max_points(self) -> int:
        """The maximum number of points of one series."""
        return (self.span.end - self.span.start) // self.span.step + 1

    def is_large(self, metrics: int) -> bool:
        return self.gpu_count * self.max_points * metrics > MAX_POINTS_IN_MEMORY

    def series_name(self, line: GpuSeries) -> str:
        """The name of a GPU, with its node when the workload uses several nodes."""
        has_several_nodes = self.allocations[0].node != self.allocations[-1].node
        return f"{line.node}/GPU-{line.device}" if has_several_nodes else f"GPU-{line.device}"


class GpuSeriesService:
    def __init__(self, context: Context, series: RangeBackend, training: TrainingService) -> None:
        self._context = context
        self._series = series
        self._training = training

    async def find_for_fleet(
        self, actor: Actor | None, ref: str, cluster: str, span: TimeRange
    ) -> WorkloadGpuRange | None:
        """For callers of the monitoring APIs; None when there is no such workload."""
        workspace_ids = visible_workspaces(self._context, actor)

        def find(transaction: Transaction) -> WorkloadGpuRange | None:
            workload = find_visible_workload(transaction, ref, cluster, workspace_ids)
            return None if workload is None else _read_gpu_range(transaction, workload, span)

        return await self._context.store.read_inline(find)

    async def get_for_workload(self, actor: Actor, ref: str, span: TimeRange) -> WorkloadGpuRange:
        """For callers who may see the workload."""

        def find(transaction: Transaction) -> WorkloadGpuRange:
            workload = find_visible_workload(transaction, get_visible(transaction, actor, ref).workload.uid, "", None)
            if workload is None:
                raise RuntimeError(f"workload {ref} is visible but cannot be found")
            return _read_gpu_range(transaction, workload, span)

        return await self._context.store.read_inline(find)

    async def read_lines(
        self, gpu_range: WorkloadGpuRange, metrics: Sequence[GpuMetric]
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        """Every series of every metric, ordered by node and device."""
        if not gpu_range.allocations:
            return {}
        return await self._series.query_range(
            gpu_range.workload.cluster_id, gpu_range.allocations, metrics, gpu_range.span
        )

    async def stream_lines(self, gpu_range: WorkloadGpuRange, metric: GpuMetric) -> AsyncIterator[list[GpuSeries]]:
        """The series of one metric in batches, so that a large result is never in memory as a whole."""
        for allocations in _batches_by_gpu(gpu_range.allocations, max(1, MAX_POINTS_IN_MEMORY // gpu_range.max_points)):
            series = await self._series.query_range(
                gpu_range.workload.cluster_id, allocations, [metric], gpu_range.span
            )
            yield series.get(metric, [])

    async def read_tflops(self, gpu_range: WorkloadGpuRange) -> list[SeriesPoint]:
        """The TFLOPS that the training code reports, averaged on the grid of the range."""
        span = gpu_range.span
        first = span.start - span.step + 1
        return average_on_grid(
            await self._training.read_points(gpu_range.workload.uid, first, span.end, CanonicalMetric.TFLOPS), span
        )


def build_range(start: int, end: int, step: int) -> TimeRange:
    """A checked range in milliseconds."""
    if end <= start:
        raise bad_request("end", "it is not after start. Use a time that is later than start.")
    points = (end - start) // step + 1
    if points > MAX_POINTS:
        min_step = (end - start) // (MAX_POINTS * 1000) + 1
        raise bad_request(
            "step",
            f"a series of this range would have {points} points, and at most {MAX_POINTS} are possible. "
            f"Use a step of at least {min_step}, or a shorter range.",
        )
    return TimeRange(start, end, step)


def average_on_grid(points: TrainingPoints, span: TimeRange) -> list[SeriesPoint]:
    """The mean of the values in (t - step, t] at each t of the range; a step without values has no point."""
    steps = -((span.start - points.at) // span.step)
    in_range = (steps >= 0) & (steps <= (span.end - span.start) // span.step)
    filled_steps, index = np.unique(steps[in_range], return_inverse=True)
    means = np.bincount(index, points.value[in_range]) / np.bincount(index)
    return list(zip(means.tolist(), (span.start + filled_steps * span.step).tolist(), strict=True))


def _read_gpu_range(transaction: Transaction, workload: FleetWorkload, span: TimeRange) -> WorkloadGpuRange:
    allocations = fleet_workloads.allocations_of_workload(transaction, workload.uid, span.start - span.step, span.end)
    return WorkloadGpuRange(workload, span, allocations)


def _batches_by_gpu(allocations: Sequence[DeviceAllocation], gpus: int) -> Iterator[list[DeviceAllocation]]:
    """The allocations of `gpus` GPUs at a time; GPUs that were last at one place, whose series have the same name, are
    in one batch."""
    places = last_places(allocations)
    by_place: dict[tuple[str, int], list[DeviceAllocation]] = {(gpu.node, gpu.device): [] for gpu in places.values()}
    for allocation in allocations:
        gpu = places[allocation.gpu.key]
        by_place[gpu.node, gpu.device].append(allocation)
    remaining = iter(by_place.values())
    while batch := list(chain.from_iterable(islice(remaining, gpus))):
        yield batch
