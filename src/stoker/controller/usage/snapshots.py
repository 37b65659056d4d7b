"""Takes snapshots of all GPU allocations at fixed times of the wall clock.

Every slot is stored once. Slots that passed during a pause are stored as missed.
"""

from collections import defaultdict
from collections.abc import Mapping

from stoker.domain.clock import Clock
from stoker.domain.cluster.live_view import LiveViewKind
from stoker.domain.usage.ledger import CostOwner
from stoker.domain.usage.snapshots import SnapshotWorkload
from stoker.store.cluster import live_views, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.usage import hour_facts, snapshots
from stoker.store.workloads import allocations
from stoker.usage.rollups import PER_POD_LABELS

MAX_MISSED_SLOTS = 10_000
"""After a longer pause only this many of the newest slots are stored as missed."""


class AllocationSnapshotter:
    def __init__(self, store: Store, cluster_id: str, clock: Clock, period_seconds: int) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._period_ms = period_seconds * 1000

    async def run(self) -> None:
        while True:
            now = self._clock.now()
            await self._clock.sleep((self._period_ms - now % self._period_ms) / 1000)
            if self._clock.now() // self._period_ms != now // self._period_ms:  # else the sleep ended before the slot
                await self.take_snapshot()

    async def take_snapshot(self) -> None:
        """Store the snapshot of the current slot, and the missed slots before it."""
        now = self._clock.now()
        slot = now // self._period_ms * self._period_ms
        await self._store.write(lambda tx: self._write_slot(tx, slot, now))

    def _write_slot(self, transaction: Transaction, slot: int, now: int) -> None:
        last = snapshots.last_slot(transaction, self._cluster_id)
        if last is not None:
            missed = range(
                max(last + self._period_ms, slot - MAX_MISSED_SLOTS * self._period_ms), slot, self._period_ms
            )
            snapshots.add_missed(transaction, self._cluster_id, missed, now)
        gpus = sum(len(node.devices) for node in nodes.of_cluster(transaction, self._cluster_id))
        snapshots.add(transaction, self._cluster_id, slot, gpus, self._allocated_workloads(transaction), now)

    def _allocated_workloads(self, transaction: Transaction) -> list[SnapshotWorkload]:
        held: defaultdict[str, int] = defaultdict(int)
        for allocation in allocations.open_allocations(transaction, self._cluster_id):
            held[allocation.workload_uid] += allocation.gpu_milli
        view = live_views.read(transaction, self._cluster_id, LiveViewKind.CONSUMERS)
        consumers = live_views.decode_consumers(view.body) if view else []
        owners = hour_facts.read_workload_facts(transaction, held).cost_owners
        return build_snapshot_workloads(owners, held, {consumer.uid: consumer.utilization for consumer in consumers})


def build_snapshot_workloads(
    owners: Mapping[str, CostOwner], held: Mapping[str, int], utilization: Mapping[str, float | None]
) -> list[SnapshotWorkload]:
    """The owners of workloads, by uid, with the milli-GPUs they hold."""
    return [
        SnapshotWorkload(
            uid,
            payer.name,
            payer.namespace,
            payer.kind,
            held[uid],
            utilization.get(uid),
            {key: value for key, value in payer.annotations.items() if key not in PER_POD_LABELS},
        )
        for uid in sorted(held)
        if (payer := owners.get(uid)) is not None
    ]
