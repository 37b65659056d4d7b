"""Turns what was measured of pods in hours that are over into a row for each pod, a few at a time.

Ticks go once every pod of their stripe has its row. One that was cut short is begun again and gives the same rows.
"""

import asyncio

from stoker.controller.compaction import EVERY_SECONDS, LATE_MS
from stoker.domain.clock import HOUR_MS, Clock
from stoker.store import pod_samples
from stoker.store.base import Store

PODS_AT_ONCE = 200


class PodHours:
    def __init__(self, store: Store, cluster_id: str, clock: Clock) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock

    async def run(self) -> None:
        while True:
            await self.close()
            await asyncio.sleep(EVERY_SECONDS)

    async def close(self) -> int:
        """Every hour that is over, the oldest first; says how many there were."""
        hours = 0
        while (hour_at := await self._due()) is not None:
            for stripe in await self._store.read(lambda tx, h=hour_at: pod_samples.stripes(tx, self._cluster_id, h)):
                await self._close(stripe, hour_at)
            hours += 1
        return hours

    async def _due(self) -> int | None:
        oldest = await self._store.peek(lambda tx: pod_samples.oldest(tx, self._cluster_id))
        if oldest is None:
            return None
        hour_at = oldest - oldest % HOUR_MS
        return hour_at if hour_at + HOUR_MS + LATE_MS <= self._clock.now() else None

    async def _close(self, stripe: int, hour_at: int) -> None:
        found = await self._store.read(lambda tx: pod_samples.hours(tx, self._cluster_id, stripe, hour_at))
        pods = list(found.items())
        for first in range(0, len(pods), PODS_AT_ONCE):
            some = pods[first : first + PODS_AT_ONCE]
            await self._store.write(lambda tx, s=some: pod_samples.put_hours(tx, hour_at, s))
        await self._store.write(lambda tx: pod_samples.drop_ticks(tx, self._cluster_id, stripe, hour_at))
