"""Keeps what pods take of their nodes as it was read: every time while they are few, of many once a minute."""

import asyncio
from collections.abc import Sequence

from stoker.domain.clock import MINUTE_MS
from stoker.domain.pod_samples import PodMetric, PodSource
from stoker.domain.readings import PodUse
from stoker.store import pod_samples
from stoker.store.base import Store

FEW = 2_000


class PodUseKeeper:
    def __init__(self, store: Store, cluster_id: str) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._minute = -1

    async def keep(self, uses: Sequence[PodUse], at: int) -> None:
        minute, before = at // MINUTE_MS, self._minute
        if not uses or (minute == before and len(uses) > FEW):
            return
        encoded = await asyncio.to_thread(_encoded, uses)
        await self._store.write(lambda tx: pod_samples.add(tx, self._cluster_id, at, PodSource.USE, encoded))
        self._minute = minute


def _encoded(uses: Sequence[PodUse]) -> dict[int, bytes]:
    return pod_samples.encode(
        {
            use.pod_uid: {**use.said, PodMetric.CPU_MILLI: use.cpu_milli, PodMetric.MEMORY_BYTES: use.memory_bytes}
            for use in uses
        }
    )
