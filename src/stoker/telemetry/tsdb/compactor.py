"""Compacts the ticks of finished hours into sealed blocks, one stripe of GPUs per write, so that no write is long.

The ticks of an hour are deleted in the transaction that seals its block. A compaction that was interrupted starts again
from the ticks, so no sample is lost or stored twice. Samples of pods are compacted hour by hour in the same way.
"""

import asyncio
from abc import ABC, abstractmethod

import numpy as np

from stoker.concurrency.failpoints import failpoint
from stoker.domain.clock import HOUR_MS, Clock
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples, pod_samples
from stoker.store.telemetry.gpu_samples import EncodedBlock
from stoker.telemetry.tsdb import device_index, reader
from stoker.telemetry.tsdb.codec import CHUNK_GPUS, STRIPE_GPUS, encode_times, merge_ticks
from stoker.telemetry.tsdb.reader import HeadBlock

LATE_TICK_GRACE_MS = 30_000
"""How long after its end an hour waits for a tick that is still being written."""
COMPACTION_INTERVAL_SECONDS = 20.0
POD_BATCH_SIZE = 200


class _HourlyCompactor(ABC):
    """Compacts one kind of samples, hour by hour."""

    def __init__(self, store: Store, cluster_id: str, clock: Clock) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self.compact()
            await self._clock.sleep(COMPACTION_INTERVAL_SECONDS)

    async def compact(self) -> int:
        """Compact every finished hour, oldest first; returns how many there were."""
        hours = 0
        while (hour_at := await self._next_due_hour()) is not None:
            await self._compact_hour(hour_at)
            hours += 1
        return hours

    async def _next_due_hour(self) -> int | None:
        """The hour of the oldest tick, once it is over and late ticks have arrived."""
        oldest_at = await self._store.read_inline(self._oldest_tick_at)
        if oldest_at is None:
            return None
        hour_at = oldest_at - oldest_at % HOUR_MS
        return hour_at if hour_at + HOUR_MS + LATE_TICK_GRACE_MS <= self._clock.now() else None

    @abstractmethod
    def _oldest_tick_at(self, transaction: Transaction) -> int | None: ...

    @abstractmethod
    async def _compact_hour(self, hour_at: int) -> None: ...


class Compactor(_HourlyCompactor):
    """Compacts GPU samples."""

    async def compact(self) -> int:
        await self._store.write(lambda tx: gpu_samples.delete_unsealed_blocks(tx, self._cluster_id))
        hours = await super().compact()
        while await self._store.write(lambda tx: gpu_samples.delete_stale_stripes(tx, self._cluster_id)):
            pass
        return hours

    def _oldest_tick_at(self, transaction: Transaction) -> int | None:
        return gpu_samples.oldest_tick_at(transaction, self._cluster_id)

    async def _compact_hour(self, hour_at: int) -> None:
        head, sealed = await self._store.read(lambda tx: self._read_hour(tx, hour_at))
        # After the clock was set back, ticks of a sealed hour may arrive again; the sealed ones are kept.
        repeated = [at for block in head for at in block.ats.tolist() if at in sealed]
        await self._store.write(lambda tx: gpu_samples.delete_ticks(tx, self._cluster_id, repeated))
        for block in head:
            ats = np.array([at for at in block.ats.tolist() if at not in sealed], np.int64)
            if len(ats):
                await self._seal_ticks(hour_at, HeadBlock(self._cluster_id, block.device_index_id, ats))

    def _read_hour(self, transaction: Transaction, hour_at: int) -> tuple[list[HeadBlock], set[int]]:
        """The head of an hour, and the times of the ticks that sealed blocks have already."""
        head = reader.list_head_blocks(transaction, self._cluster_id, hour_at, hour_at + HOUR_MS)
        sealed = reader.list_sealed_blocks(transaction, self._cluster_id, hour_at, hour_at + 1)
        return head, {at for block in sealed for at in block.times().tolist()}

    async def _seal_ticks(self, hour_at: int, head: HeadBlock) -> None:
        index_id = head.device_index_id
        empty = EncodedBlock(len(head.ats), encode_times(head.ats), CHUNK_GPUS, ())
        block_id = await self._store.write(
            lambda tx: gpu_samples.begin_block(tx, self._cluster_id, hour_at, index_id, empty)
        )
        body = await self._store.read(lambda tx: gpu_samples.read_device_index(tx, index_id))
        for first_gpu in range(0, device_index.decode(body).gpu_count, STRIPE_GPUS):
            stripes = await self._store.read(lambda tx, first=first_gpu: head.read_stripes(tx, first))
            chunks = await asyncio.to_thread(merge_ticks, first_gpu, list(stripes.values()))
            await self._store.write(lambda tx, some=chunks: gpu_samples.add_chunks_to_block(tx, block_id, some))
            failpoint("compaction.added")
        await self._store.write(lambda tx: self._seal(tx, block_id, head.ats.tolist()))
        failpoint("compaction.sealed")

    def _seal(self, transaction: Transaction, block_id: int, ats: list[int]) -> None:
        gpu_samples.seal_block(transaction, block_id, self._clock.now())
        gpu_samples.delete_ticks(transaction, self._cluster_id, ats)


class PodSampleCompactor(_HourlyCompactor):
    """Compacts samples of pods."""

    def _oldest_tick_at(self, transaction: Transaction) -> int | None:
        return pod_samples.oldest_tick_at(transaction, self._cluster_id)

    async def _compact_hour(self, hour_at: int) -> None:
        stripes = await self._store.read(lambda tx: pod_samples.stripes_of_hour(tx, self._cluster_id, hour_at))
        for stripe in stripes:
            await self._compact_stripe(stripe, hour_at)

    async def _compact_stripe(self, stripe: int, hour_at: int) -> None:
        hours = await self._store.read(lambda tx: pod_samples.encode_hours(tx, self._cluster_id, stripe, hour_at))
        pods = list(hours.items())
        for first in range(0, len(pods), POD_BATCH_SIZE):
            batch = pods[first : first + POD_BATCH_SIZE]
            await self._store.write(lambda tx, some=batch: pod_samples.write_hours(tx, hour_at, some))
        await self._store.write(lambda tx: pod_samples.delete_ticks(tx, self._cluster_id, stripe, hour_at))
