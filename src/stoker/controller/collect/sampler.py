"""Samples the hardware of a cluster at every full period of the wall clock, and has the samples stored and published.

A collector that is slow, dead or wrong delays nothing: allocations are published all the same, and the last sample of
the GPUs is shown as stale for `max_sample_age` and then dropped.
"""

import asyncio
import logging
from collections.abc import Callable

from msgspec import structs

from stoker.concurrency.supervisor import Supervisor
from stoker.controller.collect.live_view import LiveViewPublisher
from stoker.controller.collect.pod_usage import PodUsageRecorder
from stoker.controller.policy.idle import IdlePolicyEnforcer
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.domain.clock import Clock
from stoker.domain.cluster.live_view import CollectorStatus
from stoker.domain.cluster.sample_age import max_sample_age
from stoker.domain.cluster.samples import Collector, GpuSamples
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import GpuFaultAction
from stoker.store.db.base import Store, has_disk_space

NOT_COLLECTED_YET = "It has not been read yet."
TIMEOUT_FRACTION = 0.8
"""The share of a period that the collector may take to answer."""

log = logging.getLogger("stoker.sampler")


class Sampler:
    def __init__(
        self,
        store: Store,
        collector: Collector,
        cluster_id: str,
        clock: Clock,
        dirty: DirtySet,
        supervisor: Supervisor,
        period_seconds: float,
        idle_percent: float = 1.0,
        gpu_fault_action: GpuFaultAction = GpuFaultAction.KEEP,
        on_faults: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_faults` is called when the set of faulty GPUs has changed."""
        self._store = store
        self._collector = collector
        self._cluster_id = cluster_id
        self._clock = clock
        self._supervisor = supervisor
        self._period_ms = round(period_seconds * 1000)
        status = CollectorStatus(collector.name, None, stale=True, message=NOT_COLLECTED_YET, asked_at=clock.now())
        self._publisher = LiveViewPublisher(
            store, cluster_id, clock, dirty, status, idle_percent, gpu_fault_action, on_faults
        )
        self._pod_usage = PodUsageRecorder(store, cluster_id)
        self._idle_policy = IdlePolicyEnforcer(store, cluster_id, clock, self._period_ms, idle_percent)
        self._pending_query: asyncio.Task[GpuSamples] | None = None

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.run("live view", self._publisher.run))
                group.create_task(self._supervisor.run("sampler", self._sample_loop))
        finally:
            if self._pending_query is not None:
                self._pending_query.cancel()

    async def _sample_loop(self) -> None:
        """Sample at once, to publish a first view, and then at every full period, to store the samples."""
        await self._collect(tick_at=None)
        while True:
            now = self._clock.now()
            tick_at = now - now % self._period_ms + self._period_ms
            await self._clock.sleep((tick_at - now) / 1000)
            await self._collect(tick_at)

    async def _collect(self, tick_at: int | None) -> None:
        samples = await self._query_collector()
        answered_at = self._clock.now()
        publisher = self._publisher
        async with publisher.lock:
            if samples is not None:
                await asyncio.to_thread(publisher.builder.set_samples, samples, tick_at)
                publisher.collector_status = CollectorStatus(self._collector.name, answered_at, stale=False)
            elif self._age_ms() > max_sample_age(self._period_ms):
                await asyncio.to_thread(publisher.builder.set_samples, None, None, publisher.faults)
            tick_at = tick_at if samples is not None and has_disk_space(self._store) else None
            await publisher.publish(tick_at, None if samples is None else samples.faults)
            if tick_at is not None:
                await self._idle_policy.enforce(tick_at, publisher.builder.peak_utilization)
        if samples is not None and tick_at is not None:
            await self._pod_usage.record(samples.pods, tick_at)

    async def _query_collector(self) -> GpuSamples | None:
        """Samples of now, or None when the collector has none. There is at most one query at a time."""
        query = self._pending_query
        if query is None or query.done():
            query = self._pending_query = asyncio.create_task(self._collector.collect())
        deadline = asyncio.create_task(self._clock.sleep(TIMEOUT_FRACTION * self._period_ms / 1000))
        done, _ = await asyncio.wait({query, deadline}, return_when=asyncio.FIRST_COMPLETED)
        deadline.cancel()
        if query not in done:
            query.cancel()
            return self._mark_stale(f"The source {self._collector.name} has not answered in time.")
        if query.cancelled():
            return self._mark_stale(f"The source {self._collector.name} has not answered in time.")
        error = query.exception()
        if isinstance(error, StokerError):
            return self._mark_stale(error.message)
        if error is not None:
            log.error("the source %s of cluster %s failed", self._collector.name, self._cluster_id, exc_info=error)
            return self._mark_stale(f"The source {self._collector.name} failed: {error}")
        status = self._publisher.collector_status
        if status.stale and status.message != NOT_COLLECTED_YET:
            log.info("the source %s of cluster %s answers again", self._collector.name, self._cluster_id)
        return query.result()

    def _mark_stale(self, message: str) -> None:
        status = self._publisher.collector_status
        if not status.stale or message != status.message:
            log.warning("cluster %s: %s", self._cluster_id, message)
        self._publisher.collector_status = structs.replace(status, stale=True, message=message)

    def _age_ms(self) -> int:
        return self._clock.now() - (self._publisher.collector_status.read_at or 0)
