"""Stores the resource usage of pods: every sample of small clusters, one per minute of large ones."""

import asyncio
from collections.abc import Sequence

from stoker.domain.clock import MINUTE_MS
from stoker.domain.cluster.samples import PodUsage
from stoker.domain.metrics.pod_samples import MetricValues, PodMetric, PodSampleSource
from stoker.store.db.base import Store
from stoker.store.telemetry import pod_samples

MAX_FULL_RATE_PODS = 2_000


class PodUsageRecorder:
    def __init__(self, store: Store, cluster_id: str) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._last_minute = -1

    async def record(self, uses: Sequence[PodUsage], at: int) -> None:
        minute, before = at // MINUTE_MS, self._last_minute
        if not uses or (minute == before and len(uses) > MAX_FULL_RATE_PODS):
            return
        encoded = await asyncio.to_thread(_encode, uses)
        await self._store.write(
            lambda tx: pod_samples.add_tick(tx, self._cluster_id, at, PodSampleSource.USAGE, encoded)
        )
        self._last_minute = minute


def _encode(uses: Sequence[PodUsage]) -> dict[int, bytes]:
    return pod_samples.encode_tick({use.pod_uid: _values(use) for use in uses})


def _values(use: PodUsage) -> MetricValues:
    cpu = {} if use.cpu_milli is None else {PodMetric.CPU_MILLI: use.cpu_milli}
    return {**use.extra_metrics, **cpu, PodMetric.MEMORY_BYTES: use.memory_bytes}
