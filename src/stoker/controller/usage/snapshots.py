"""Takes a picture of who holds what at every slot of a fixed grid of the wall clock.

A slot is kept once. After a pause the slots that passed are kept as missed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from stoker.domain.clock import Clock
from stoker.domain.live import Part
from stoker.domain.usage import Payer, SnapshotWorkload
from stoker.store import live_views, nodes, pods, snapshots, usage_facts
from stoker.store.base import Store, Transaction
from stoker.usage.levels import SINGLE_POD

MOST_MISSED = 10_000
"""After a longer pause only the newest slots are kept as missed."""


class Snapshots:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, period_seconds: int) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = period_seconds * 1000

    async def run(self) -> None:
        while True:
            now = self._clock.now()
            await asyncio.sleep((self._period_ms - now % self._period_ms) / 1000)
            if self._clock.now() // self._period_ms != now // self._period_ms:  # else it woke up before the slot
                await self.take()

    async def take(self) -> None:
        """Keep the slot that is now, and say which were missed before it."""
        now = self._clock.now()
        slot = now // self._period_ms * self._period_ms
        await self._store.write(lambda tx: self._take(tx, slot, now))

    def _take(self, transaction: Transaction, slot: int, now: int) -> None:
        last = snapshots.last_slot(transaction, self._cluster_id)
        if last is not None:
            missed = range(max(last + self._period_ms, slot - MOST_MISSED * self._period_ms), slot, self._period_ms)
            snapshots.miss(transaction, self._cluster_id, missed, now)
        gpus = sum(len(node.devices) for node in nodes.of_cluster(transaction, self._cluster_id))
        snapshots.add(transaction, self._cluster_id, slot, gpus, self._holders(transaction), now)

    def _holders(self, transaction: Transaction) -> list[SnapshotWorkload]:
        held: defaultdict[str, int] = defaultdict(int)
        for allocation in pods.open_allocations(transaction, self._cluster_id):
            held[allocation.workload_uid] += allocation.gpu_milli
        view = live_views.read(transaction, self._cluster_id, Part.CONSUMERS)
        consumers = live_views.decode_consumers(view.body) if view else []
        whose = usage_facts.workloads(transaction, held).payers
        return named(whose, held, {consumer.uid: consumer.utilization for consumer in consumers})


def named(
    whose: Mapping[str, Payer], held: Mapping[str, int], utilization: Mapping[str, float | None]
) -> list[SnapshotWorkload]:
    """Whose workloads they are that hold so many milli-GPUs, by their uids."""
    return [
        SnapshotWorkload(
            uid,
            payer.name,
            payer.namespace,
            payer.kind,
            held[uid],
            utilization.get(uid),
            {key: value for key, value in payer.annotations.items() if key not in SINGLE_POD},
        )
        for uid in sorted(held)
        if (payer := whose.get(uid)) is not None
    ]
