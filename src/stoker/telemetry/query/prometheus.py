"""Range queries to Prometheus.

Points whose whole step is covered by an allocation come as means, in one query for all GPUs. Where an allocation begins
or ends within a step, only the covered part is queried.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from stoker.domain.cluster.gpu_identity import GpuId, is_other_gpu
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import bad_request
from stoker.domain.metrics.series import MAX_POINTS, DeviceAllocation, GpuSeries, SeriesPoint, TimeRange, last_places
from stoker.telemetry.collectors.prometheus import clamp_fraction
from stoker.telemetry.prometheus.client import PrometheusClient, SeriesResult, gather_or_cancel
from stoker.telemetry.prometheus.exporter_schemas import UNIT_SCALES, ExporterField, ExporterSchema, GpuSelector
from stoker.telemetry.prometheus.node_matching import NodeMatcher
from stoker.telemetry.prometheus.promql import avg_by, sum_by
from stoker.telemetry.query.downsample import DECIMALS
from stoker.telemetry.query.windows import Coverage, PartialWindow, coverage_by_gpu

MAX_VALUES_PER_QUERY = 1_000_000
"""Values of one response."""

METRIC_FIELDS = {
    GpuMetric.UTILIZATION: (ExporterField.UTILIZATION,),
    GpuMetric.MEMORY_USED: (ExporterField.MEMORY_USED, ExporterField.MEMORY_FREE, ExporterField.MEMORY_TOTAL),
    GpuMetric.POWER: (ExporterField.POWER,),
    GpuMetric.TEMPERATURE: (ExporterField.TEMPERATURE,),
}

MeansByGpu = dict[str, dict[int, float]]
"""The mean at each point, by key of the GPU."""

PartialSum = tuple[GpuId, int, float, float]
"""A GPU, a point, and the sum and count of its samples."""


class PrometheusBackend:
    def __init__(self, client: PrometheusClient, schema: ExporterSchema) -> None:
        self._client = client
        self._schema = schema

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        if (span.end - span.start) // span.step >= MAX_POINTS:
            raise bad_request("step", f"is too short for this range: {MAX_POINTS} points are the most.")
        coverages = coverage_by_gpu(allocations, span)
        wanted = [field for metric in metrics for field in METRIC_FIELDS[metric]]
        answers = await gather_or_cancel(*(self._query_field(field, coverages, span) for field in wanted))
        values = dict(zip(wanted, answers, strict=True))
        gpus = last_places(allocations)
        return await asyncio.to_thread(lambda: {metric: _build_lines(metric, values, gpus) for metric in metrics})

    async def close(self) -> None:
        await self._client.close()

    async def _query_field(
        self, field: ExporterField, coverages: Mapping[GpuId, Coverage], span: TimeRange
    ) -> MeansByGpu:
        known = NodeMatcher({gpu.node for gpu in coverages})
        parts = [self._query_full_points(field, part, known, span) for part in _batches(coverages, span)]
        parts += [
            self._query_partial_window(field, window, gpus, known)
            for window, gpus in _gpus_by_window(coverages).items()
        ]
        return await asyncio.to_thread(_merge_sums, await gather_or_cancel(*parts), UNIT_SCALES.get(field, 1.0))

    async def _query_full_points(
        self, field: ExporterField, coverages: Mapping[GpuId, Coverage], known: NodeMatcher, span: TimeRange
    ) -> list[PartialSum]:
        """The points with full coverage, as means that Prometheus computes."""
        points = [points for coverage in coverages.values() for points in coverage.full_points]
        first, last = min(run[0] for run in points), max(run[-1] for run in points)
        query = await self._build_query("avg_over_time", field, coverages, span.step)
        answer = await self._client.query_range(query, first, last, span.step)

        def select_points() -> list[PartialSum]:
            return [
                (gpu, at, number, 1.0)
                for gpu, series in self._resolve(answer, known, coverages)
                for at, number in series.iter_samples()
                if coverages[gpu].is_full(at)
            ]

        return await asyncio.to_thread(select_points)

    async def _query_partial_window(
        self, field: ExporterField, window: PartialWindow, gpus: Sequence[GpuId], known: NodeMatcher
    ) -> list[PartialSum]:
        """The sum and count of the samples of a window; one point may have several windows."""
        total = await self._build_query("sum_over_time", field, gpus, window.end - window.start)
        count = await self._build_query("count_over_time", field, gpus, window.end - window.start)
        sums, counts = await gather_or_cancel(
            self._client.query(total, window.end), self._client.query(count, window.end)
        )
        number_of: defaultdict[GpuId, float] = defaultdict(float)
        for gpu, series in self._resolve(counts, known, gpus):
            number_of[gpu] += series.instant_value or 0.0
        totals: defaultdict[GpuId, float] = defaultdict(float)
        for gpu, series in self._resolve(sums, known, gpus):
            totals[gpu] += series.instant_value or 0.0
        return [(gpu, window.point, total, number_of.get(gpu, 0.0)) for gpu, total in totals.items()]

    async def _build_query(self, over: str, field: ExporterField, gpus: Iterable[GpuId], milliseconds: int) -> str:
        """Apply a PromQL function over a time window. A GPU may have several series, one for each pod."""
        window = await self._client.range_duration(milliseconds)
        wanted_gpus, labels = list(gpus), self._schema.gpu_labels
        wanted = GpuSelector(
            sorted({gpu.node for gpu in wanted_gpus}),
            sorted({gpu.device for gpu in wanted_gpus}),
            sorted({gpu.uuid for gpu in wanted_gpus if gpu.uuid}),
        )
        gathered = avg_by if over == "avg_over_time" else sum_by
        return self._schema.build_query(field, wanted, lambda series: gathered(f"{over}({series}[{window}])", labels))

    def _resolve(
        self, answer: Iterable[SeriesResult], known: NodeMatcher, gpus: Collection[GpuId]
    ) -> Iterator[tuple[GpuId, SeriesResult]]:
        """The series of these GPUs: those with the UUID of a GPU, at any place; without any, those at its place. If
        several exporters report a GPU at a place, the first counts."""
        by_uuid: defaultdict[str, list[GpuId]] = defaultdict(list)
        for gpu in gpus:
            by_uuid[gpu.uuid].append(gpu)
        find = self._schema.label_resolver(known, by_uuid.keys() - {""})
        found: dict[GpuId, SeriesResult] = {}
        for series in answer:
            labelled = find(series.metric)
            if labelled is not None:
                found.setdefault(labelled, series)
        named = {labelled.uuid for labelled in found if labelled.uuid} & by_uuid.keys()
        by_place: defaultdict[tuple[str, int], list[GpuId]] = defaultdict(list)
        for labelled, series in found.items():
            by_place[labelled.node, labelled.device].append(labelled)
            if labelled.uuid in named:
                yield from ((gpu, series) for gpu in by_uuid[labelled.uuid])
        for gpu in gpus:
            if gpu.uuid in named:
                continue
            at_place = [
                labelled
                for labelled in by_place.get((gpu.node, gpu.device), ())
                if not is_other_gpu(labelled.uuid, gpu.uuid)
            ]
            with_uuid = [labelled for labelled in at_place if labelled.uuid]
            yield from ((gpu, found[labelled]) for labelled in with_uuid or at_place[:1])


def _batches(coverages: Mapping[GpuId, Coverage], span: TimeRange) -> Iterator[dict[GpuId, Coverage]]:
    """The GPUs with full points, in batches that keep the response small."""
    batch_size = max(1, MAX_VALUES_PER_QUERY // ((span.end - span.start) // span.step + 1))
    covered = [(gpu, coverage) for gpu, coverage in coverages.items() if coverage.full_points]
    for first in range(0, len(covered), batch_size):
        yield dict(covered[first : first + batch_size])


def _gpus_by_window(coverages: Mapping[GpuId, Coverage]) -> dict[PartialWindow, list[GpuId]]:
    """The GPUs of each partial window."""
    gpus: defaultdict[PartialWindow, list[GpuId]] = defaultdict(list)
    for gpu, coverage in coverages.items():
        for window in coverage.partial_windows:
            gpus[window].append(gpu)
    return gpus


def _merge_sums(parts: Iterable[Iterable[PartialSum]], scale: float) -> MeansByGpu:
    sums: defaultdict[str, dict[int, tuple[float, float]]] = defaultdict(dict)
    for part in parts:
        for gpu, point, total, count in part:
            by_point = sums[gpu.key]
            before = by_point.get(point, (0.0, 0.0))
            by_point[point] = (before[0] + total, before[1] + count)
    return {
        key: {point: total / count * scale for point, (total, count) in points.items() if count}
        for key, points in sums.items()
    }


def _build_lines(
    metric: GpuMetric, values: Mapping[ExporterField, MeansByGpu], gpus: Mapping[str, GpuId]
) -> list[GpuSeries]:
    """By node and device; a GPU without samples has no series."""
    lines = []
    for key, gpu in gpus.items():
        points = [
            (round(value, DECIMALS), at) for value, at in _build_points(metric, key, values) if math.isfinite(value)
        ]
        if points:
            lines.append(GpuSeries(gpu.node, gpu.device, points, gpu.uuid))
    return lines


def _build_points(metric: GpuMetric, gpu: str, values: Mapping[ExporterField, MeansByGpu]) -> list[SeriesPoint]:
    first = sorted(values[METRIC_FIELDS[metric][0]].get(gpu, {}).items())
    ats = [at for at, _ in first]
    if metric is GpuMetric.UTILIZATION:
        return list(zip(clamp_fraction(np.array([value for _, value in first])).tolist(), ats, strict=True))
    if metric is not GpuMetric.MEMORY_USED:
        return [(value, at) for at, value in first]
    free, total = (values[field].get(gpu, {}) for field in (ExporterField.MEMORY_FREE, ExporterField.MEMORY_TOTAL))
    sizes = {at: total.get(at, used + free[at] if at in free else math.nan) for at, used in first}
    return [(min(used / sizes[at], 1.0) if sizes[at] > 0 else math.nan, at) for at, used in first]
