"""Range queries to Prometheus, completed from the stored samples.

The store answers for simulated clusters, for points that Prometheus does not have, and while Prometheus is down.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, RangeBackend, TimeRange
from stoker.store.cluster import clusters
from stoker.store.db.base import Store
from stoker.telemetry.query.windows import Coverage, coverage_by_gpu

log = logging.getLogger(__name__)

GpuLines = Mapping[GpuMetric, list[GpuSeries]]


class FallbackBackend:
    def __init__(self, store: Store, local: RangeBackend, remote: RangeBackend) -> None:
        self._store = store
        self._local = local
        self._remote = remote
        self._is_down = False

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        cluster = await self._store.read_inline(lambda tx: clusters.find(tx, cluster_id))
        if cluster is None or cluster.is_simulated:
            return await self._local.query_range(cluster_id, allocations, metrics, span)
        try:
            remote = await self._remote.query_range(cluster_id, allocations, metrics, span)
        except StokerError as error:
            if error.code is not ErrorCode.UNAVAILABLE:
                raise
            if not self._is_down:
                log.warning("Range queries are answered from the store: %s", error.message)
            self._is_down = True
            return await self._local.query_range(cluster_id, allocations, metrics, span)
        self._is_down = False
        missing = await asyncio.to_thread(_missing_range, remote, allocations, metrics, span)
        if missing is None:
            return remote
        local = await self._local.query_range(cluster_id, allocations, metrics, missing)
        return await asyncio.to_thread(_merge_lines, remote, local)


def _missing_range(
    remote: GpuLines, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
) -> TimeRange | None:
    """The smallest range with all points that are missing in the series of any GPU; None if none is."""
    expected: defaultdict[str, set[int]] = defaultdict(set)
    for gpu, coverage in coverage_by_gpu(allocations, span).items():
        expected[gpu.key] |= _expected_points(coverage)
    missing: set[int] = set()
    for metric in metrics:
        lines = _by_gpu(remote.get(metric, []))
        for key, points in expected.items():
            line = lines.get(key)
            missing |= points if line is None else points.difference(at for _, at in line.points)
    return TimeRange(min(missing), max(missing), span.step) if missing else None


def _expected_points(coverage: Coverage) -> set[int]:
    """The points whose steps a GPU was allocated in, fully or in part."""
    return {*chain.from_iterable(coverage.full_points), *(window.point for window in coverage.partial_windows)}


def _merge_lines(remote: GpuLines, local: GpuLines) -> dict[GpuMetric, list[GpuSeries]]:
    """Both together, by node and device; where both have a point, the remote one counts."""
    merged = {}
    for metric in remote.keys() | local.keys():
        first, second = _by_gpu(remote.get(metric, [])), _by_gpu(local.get(metric, []))
        gpus = {key: line.gpu for key, line in (second | first).items()}
        merged[metric] = [
            GpuSeries(gpu.node, gpu.device, _merge_points(first.get(key), second.get(key)), gpu.uuid)
            for key, gpu in sorted(gpus.items(), key=lambda item: item[1])
        ]
    return merged


def _merge_points(first: GpuSeries | None, second: GpuSeries | None) -> list[tuple[float, int]]:
    points = {at: value for line in (second, first) if line is not None for value, at in line.points}
    return [(points[at], at) for at in sorted(points)]


def _by_gpu(lines: Sequence[GpuSeries]) -> dict[str, GpuSeries]:
    return {line.gpu.key: line for line in lines}
