"""Publishes the live view of a cluster, and stores GPU samples with it as ticks.

The view is built from the changes since the last time; a publication that fails is followed by one that reads
everything again. Only the kinds of the view that changed are written.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

from msgspec import structs

from stoker.controller.policy.gpu_faults import requeue_from_faulty_gpus
from stoker.controller.runtime.dirty_set import DirtySet, Drained
from stoker.domain.clock import Clock
from stoker.domain.cluster.live_view import CollectorStatus, LiveViewKind
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import GpuFault
from stoker.domain.settings.schema import GpuFaultAction
from stoker.store.cluster import gpu_availability, live_views, node_events, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples
from stoker.store.workloads import allocations, summaries
from stoker.store.workloads.allocations import WorkloadAllocation
from stoker.telemetry.idle.backfill import backfill_idle
from stoker.telemetry.idle.tracker import idle_gpus_from_view
from stoker.telemetry.live.builder import LiveViewBuilder

MIN_PUBLISH_INTERVAL_SECONDS = 1.0
MAX_PUBLISH_INTERVAL_SECONDS = 30.0
"""The view is published at least this often, so that readers can tell whether a controller is at work."""
RESTORED_DEVICE_INDEXES = 16
"""From how many device indexes memory sizes are restored at a start."""
COOLDOWN_FACTOR = 2.0
"""After a publication the publisher pauses for this multiple of its duration."""


class LiveViewPublisher:
    """`lock` serialises the publisher's own loop with the sampler; whoever calls `publish` holds it."""

    def __init__(
        self,
        store: Store,
        cluster_id: str,
        clock: Clock,
        dirty: DirtySet,
        collector_status: CollectorStatus,
        idle_percent: float,
        gpu_fault_action: GpuFaultAction,
        on_faults: Callable[[], None],
    ) -> None:
        """`on_faults` is called when the set of faulty GPUs has changed."""
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._dirty = dirty
        self._idle_percent = idle_percent
        self._gpu_fault_action = gpu_fault_action
        self._on_faults = on_faults
        self._restored = False
        self._device_index: tuple[bytes, int] = (b"", 0)
        self._published: Mapping[LiveViewKind, bytes] = {}
        self._published_idle: Mapping[str, int] | None = None
        self.lock = asyncio.Lock()
        self.builder = LiveViewBuilder(idle_percent)
        self.collector_status = collector_status
        self.faults: tuple[GpuFault, ...] = ()
        """The GPU faults of the last sample; before the first sample, those that are stored."""

    async def run(self) -> None:
        """Publish after changes, with a pause between publications."""
        while True:
            await self._dirty.wait(MAX_PUBLISH_INTERVAL_SECONDS)
            began = time.monotonic()
            async with self.lock:
                await self.publish()
            await self._clock.sleep(max(MIN_PUBLISH_INTERVAL_SECONDS, COOLDOWN_FACTOR * (time.monotonic() - began)))

    async def publish(self, tick_at: int | None = None, faults: tuple[GpuFault, ...] | None = None) -> None:
        """Update the view and write it. `tick_at` also stores the last sample as the tick of that time; `faults` are
        those of a sample that was just taken."""
        drained = self._dirty.drain()
        try:
            if drained.full_resync:
                if not self._restored:
                    await self._restore()
                await asyncio.to_thread(self.builder.reset, *await self._store.read(self._load))
            else:
                await self._update(drained)
            parts = await asyncio.to_thread(self.builder.build_parts, self._clock.now(), self.collector_status)
            changed = {kind: body for kind, body in parts.items() if body != self._published.get(kind)}
            new_faults = faults if faults is not None and faults != self.faults else None
            self._device_index = await self._store.write(lambda tx: self._write(tx, changed, tick_at, new_faults))
            self._published, self._published_idle = parts, self.builder.idle_milli
            if new_faults is not None:
                self.faults = new_faults
                self._on_faults()
        except BaseException:
            self._dirty.mark_all()
            raise

    async def _restore(self) -> None:
        """Restore once, from the view that was published last: the time of the last sample, the faulty GPUs, and since
        when GPUs have been idle; without such a view, idle times come from stored samples. GPU memory sizes come from
        the last device indexes: a GPU that was away for a while is not in all of them."""
        cluster_id = self._cluster_id
        overview, gpus, faults = await self._store.read(
            lambda tx: (
                live_views.try_read(tx, cluster_id, LiveViewKind.OVERVIEW, live_views.decode_overview),
                live_views.try_read(tx, cluster_id, LiveViewKind.GPUS, live_views.decode_gpus),
                gpu_availability.reported_faults(tx, cluster_id),
            )
        )
        self.faults = tuple(faults)
        if self.collector_status.read_at is None:
            await asyncio.to_thread(self.builder.set_samples, None, None, self.faults)
        if overview is not None and self.collector_status.read_at is None:
            self.collector_status = structs.replace(self.collector_status, read_at=overview[0].source.read_at)
        idle_gpus, at = (idle_gpus_from_view(gpus[0]), gpus[1]) if gpus else ([], 0)
        if not idle_gpus:
            at = self._clock.now()
            idle_gpus = await self._store.read(lambda tx: backfill_idle(tx, cluster_id, self._idle_percent, at))
        self.builder.idle_tracker.restore(idle_gpus, at)
        for body in await self._store.read(
            lambda tx: gpu_samples.recent_device_indexes(tx, cluster_id, RESTORED_DEVICE_INDEXES)
        ):
            self.builder.restore_memory_sizes(body)
        self._restored = True

    def _load(self, transaction: Transaction) -> tuple[list[Node], list[WorkloadAllocation]]:
        cluster_id = self._cluster_id
        return nodes.reported_by_engine(transaction, cluster_id), allocations.of_cluster(transaction, cluster_id)

    async def _update(self, drained: Drained) -> None:
        found: list[WorkloadAllocation] = []
        if drained.workloads:
            found = await self._store.read(lambda tx: allocations.of_workloads(tx, self._cluster_id, drained.workloads))
        await asyncio.to_thread(self.builder.update, drained.nodes, drained.workloads, found)

    def _write(
        self,
        transaction: Transaction,
        parts: Mapping[LiveViewKind, bytes],
        tick_at: int | None,
        faults: Collection[GpuFault] | None,
    ) -> tuple[bytes, int]:
        """Returns the device index that is known to be stored, and its number."""
        now = self._clock.now()
        if faults is not None:
            self._report_faults(transaction, faults)
        live_views.publish(transaction, self._cluster_id, now, parts)
        if self.builder.idle_milli != self._published_idle:
            summaries.set_idle_gpus(transaction, self._cluster_id, self.builder.idle_milli)
        if tick_at is None or not self.builder.tick:
            return self._device_index
        body, number = self._device_index
        if body is not self.builder.encoded_index or not gpu_samples.has_device_index(transaction, number):
            body = self.builder.encoded_index
            number = gpu_samples.get_or_add_device_index(
                transaction, self._cluster_id, body, self.builder.gpu_count, now
            )
        gpu_samples.add_tick(transaction, self._cluster_id, tick_at, number, self.builder.tick)
        return body, number

    def _report_faults(self, transaction: Transaction, faults: Collection[GpuFault]) -> None:
        """Store the faults that GPUs report; with the action `requeue`, workloads on these GPUs are requeued."""
        cluster_id, now = self._cluster_id, self._clock.now()
        names = {fault.node for fault in (*faults, *gpu_availability.reported_faults(transaction, cluster_id))}
        node_events.write_with_events(
            transaction, cluster_id, names, now, lambda: nodes.report_faults(transaction, cluster_id, faults, now)
        )
        if self._gpu_fault_action is GpuFaultAction.REQUEUE:
            requeue_from_faulty_gpus(transaction, cluster_id, names, now)
