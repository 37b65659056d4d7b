"""Scrapes the metrics of inference servers at every full period of the wall clock and stores them.

Only addresses reported by the engine are scraped. A slow server is scraped less often in proportion to its response
time, and a failing one with exponential back-off.
"""

import asyncio
import time
from collections.abc import Sequence

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock
from stoker.domain.metrics.pod_samples import MetricValues, PodSampleSource
from stoker.domain.metrics.scraping import metrics_paths
from stoker.engines.model import ServiceEndpoint
from stoker.engines.protocol import Engine
from stoker.store.db.base import Store, has_disk_space
from stoker.store.telemetry import pod_samples
from stoker.store.workloads import rows
from stoker.telemetry.scrape import vllm
from stoker.telemetry.scrape.client import ScrapeClient

SCRAPE_CONCURRENCY = 16
MAX_TARGETS_PER_ROUND = 512
"""How many servers are scraped in one round, longest waiting first."""
MAX_WAIT_MS = 300_000
COOLDOWN_FACTOR = 20
"""After a scrape a server is left alone for this multiple of its duration, so at most 1/20 of its time goes to
scrapes."""


class _ScrapeTarget:
    """A server and the time of its next scrape."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        self.paths = paths
        self.next_scrape_at = 0
        self._failures = 0

    def is_due(self, at: int) -> bool:
        """Whether it is scraped now. A wait that is longer than the maximum means that the clock was set back, and is
        ignored."""
        return bool(self.paths) and not at < self.next_scrape_at <= at + MAX_WAIT_MS

    def mark_up(self, path: str, at: int, took_ms: int) -> None:
        self.paths, self.next_scrape_at, self._failures = (path,), at + min(MAX_WAIT_MS, COOLDOWN_FACTOR * took_ms), 0

    def mark_down(self, at: int, period_ms: int) -> None:
        self._failures += 1
        self.next_scrape_at = at + round(backoff_seconds(self._failures, first=period_ms, longest=MAX_WAIT_MS))


class InferenceCollector:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        cluster_id: str,
        clock: Clock,
        period_seconds: float,
        pages: ScrapeClient | None = None,
    ) -> None:
        self._store = store
        self._engine = engine
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = round(period_seconds * 1000)
        self._client = pages or ScrapeClient()
        self._targets: dict[str, _ScrapeTarget] = {}
        self._scrape_slots = asyncio.Semaphore(SCRAPE_CONCURRENCY)

    async def run(self) -> None:
        try:
            while True:
                now = self._clock.now()
                slot = now - now % self._period_ms + self._period_ms
                await self._clock.sleep((slot - now) / 1000)
                await self.collect(slot)
        finally:
            await self._client.close()

    async def collect(self, at: int) -> int:
        """Scrape all servers that are due. Returns how many of them had metrics."""
        listening = {endpoint.pod_uid: endpoint for endpoint in self._engine.service_endpoints()}
        self._targets = {uid: server for uid, server in self._targets.items() if uid in listening}
        await self._add_targets([endpoint for uid, endpoint in listening.items() if uid not in self._targets])
        due = [uid for uid, server in self._targets.items() if server.is_due(at)]
        due = sorted(due, key=lambda uid: self._targets[uid].next_scrape_at)[:MAX_TARGETS_PER_ROUND]
        scraped = await asyncio.gather(*(self._scrape(listening[uid], self._targets[uid], at) for uid in due))
        metrics = {uid: values for uid, values in zip(due, scraped, strict=True) if values}
        if metrics and has_disk_space(self._store):
            encoded = await asyncio.to_thread(pod_samples.encode_tick, metrics)
            await self._store.write(
                lambda tx: pod_samples.add_tick(tx, self._cluster_id, at, PodSampleSource.INFERENCE, encoded)
            )
        return len(metrics)

    async def _add_targets(self, new: Sequence[ServiceEndpoint]) -> None:
        if not new:
            return
        known = await self._store.read(lambda tx: rows.by_uid(tx, {endpoint.workload_uid for endpoint in new}))
        for endpoint in new:
            if endpoint.workload_uid in known:
                self._targets[endpoint.pod_uid] = _ScrapeTarget(metrics_paths(known[endpoint.workload_uid]))

    async def _scrape(self, serving: ServiceEndpoint, server: _ScrapeTarget, at: int) -> MetricValues:
        async with self._scrape_slots:
            for path in server.paths:
                began = time.monotonic()
                page = await self._client.scrape(serving.address, path)
                took_ms = round((time.monotonic() - began) * 1000)
                if page and (metrics := await asyncio.to_thread(vllm.parse_metrics, page)):
                    server.mark_up(path, at, took_ms)
                    return metrics
        server.mark_down(at, self._period_ms)
        return {}
