"""Turns the ticks of hours that are over into segments, a stripe of GPUs at a time so that no write is long.

An hour counts as ticks until its segments are sealed, and the ticks go with the seal. One that was cut short is begun
again from the ticks, so nothing is lost or doubled whenever it is stopped.
"""

import asyncio
from itertools import groupby

import numpy as np

from stoker.domain.clock import HOUR_MS, Clock
from stoker.engines.failpoints import failpoint
from stoker.store import samples
from stoker.store.base import Store, Transaction
from stoker.store.samples import Packed
from stoker.telemetry import roster
from stoker.telemetry.chunks import CHUNK_GPUS, STRIPE_GPUS, decode_times, encode_times, join_ticks

LATE_MS = 30_000
"""How long after its end an hour waits for a tick that is still being written."""
EVERY_SECONDS = 20.0


class Compactor:
    def __init__(self, store: Store, cluster_id: str, clock: Clock) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self.compact()
            await asyncio.sleep(EVERY_SECONDS)

    async def compact(self) -> int:
        """Every hour that is over, the oldest first; says how many there were."""
        hours = 0
        await self._store.write(lambda tx: samples.drop_unsealed(tx, self._cluster_id))
        while (hour_at := await self._due()) is not None:
            await self._close(hour_at)
            hours += 1
        while await self._store.write(lambda tx: samples.sweep(tx, self._cluster_id)):
            pass
        return hours

    async def _due(self) -> int | None:
        """The oldest hour that is over and still has ticks."""
        oldest = await self._store.peek(lambda tx: samples.oldest_tick(tx, self._cluster_id))
        if oldest is None:
            return None
        hour_at = oldest - oldest % HOUR_MS
        return hour_at if hour_at + HOUR_MS + LATE_MS <= self._clock.now() else None

    async def _close(self, hour_at: int) -> None:
        ticks = await self._store.read(lambda tx: samples.ticks(tx, self._cluster_id, hour_at, hour_at + HOUR_MS))
        sealed = await self._store.read(lambda tx: self._sealed(tx, hour_at))
        again = [tick.at for tick in ticks if tick.at in sealed]  # the clock was set back over an hour that is kept
        await self._store.write(lambda tx: samples.drop_ticks(tx, self._cluster_id, again))
        left = sorted((tick for tick in ticks if tick.at not in sealed), key=lambda tick: (tick.roster_id, tick.at))
        for roster_id, mine in groupby(left, key=lambda tick: tick.roster_id):
            await self._close_roster(hour_at, roster_id, [tick.at for tick in mine])

    def _sealed(self, transaction: Transaction, hour_at: int) -> set[int]:
        """The moments of the hour that are in segments already."""
        found = samples.segments(transaction, self._cluster_id, hour_at, hour_at + 1)
        return {at for segment in found for at in decode_times(segment.times).tolist()}

    async def _close_roster(self, hour_at: int, roster_id: int, ats: list[int]) -> None:
        empty = Packed(len(ats), encode_times(np.array(ats, np.int64)), CHUNK_GPUS, ())
        segment_id = await self._store.write(
            lambda tx: samples.begin_segment(tx, self._cluster_id, hour_at, roster_id, empty)
        )
        gpus = roster.decode(await self._store.read(lambda tx: samples.roster(tx, roster_id))).gpus
        for first in range(0, gpus, STRIPE_GPUS):
            found = await self._store.read(lambda tx, f=first: self._stripes(tx, f, ats))
            chunks = await asyncio.to_thread(join_ticks, first, found)
            await self._store.write(lambda tx, c=chunks: samples.add_to_segment(tx, segment_id, c))
            failpoint("compaction.added")
        await self._store.write(lambda tx: self._seal(tx, segment_id, ats))
        failpoint("compaction.sealed")

    def _stripes(self, transaction: Transaction, first_gpu: int, ats: list[int]) -> list[bytes]:
        wanted = set(ats)
        found = samples.stripes(transaction, self._cluster_id, first_gpu, ats[0], ats[-1] + 1)
        return [data for at, data in found if at in wanted]

    def _seal(self, transaction: Transaction, segment_id: int, ats: list[int]) -> None:
        samples.seal_segment(transaction, segment_id, self._clock.now())
        samples.drop_ticks(transaction, self._cluster_id, ats)
