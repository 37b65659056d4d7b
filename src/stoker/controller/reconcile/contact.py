"""Tracks whether the engine of a cluster can be reached.

While it cannot, nothing is scheduled there. After a grace period its workloads become Unknown: they may run or not.
The first report after the outage brings them back.
"""

import asyncio
from collections.abc import Callable, Iterable

from stoker.domain.clock import Clock
from stoker.domain.workload.events import EngineReachable, EngineUnreachable, LifecycleEvent
from stoker.domain.workload.lifecycle import transition
from stoker.engines.model import Disconnected
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.workloads import rows, transitions

UNKNOWN_AFTER_SECONDS = 60.0


class ContactMonitor:
    def __init__(
        self,
        store: Store,
        cluster_id: str,
        clock: Clock,
        mark_changed: Callable[[Iterable[str]], None],
        unknown_after_seconds: float = UNKNOWN_AFTER_SECONDS,
    ) -> None:
        self._store = store
        self._cluster_id = cluster_id
        self._clock = clock
        self._mark_changed = mark_changed
        self._unknown_after_ms = round(unknown_after_seconds * 1000)
        self._outage: Disconnected | None = None
        self._is_reachable = asyncio.Event()
        self._is_lost = asyncio.Event()

    async def mark_lost(self, outage: Disconnected) -> None:
        """Record an outage."""
        await self._store.write(lambda tx: clusters.set_unreachable(tx, self._cluster_id, outage.since, outage.message))
        self._outage = outage
        self._is_reachable.clear()
        self._is_lost.set()
        self._mark_changed(())

    async def mark_restored(self) -> None:
        """Record that the engine reports again."""
        if self._is_reachable.is_set():
            return
        self._outage = None
        self._is_lost.clear()

        def write(transaction: Transaction) -> list[str]:
            clusters.set_reachable(transaction, self._cluster_id)
            return self._apply_to_all(transaction, EngineReachable(self._clock.now()))

        changed = await self._store.write(write)
        self._is_reachable.set()
        self._mark_changed(changed)

    async def wait_reachable(self) -> None:
        await self._is_reachable.wait()

    async def run(self) -> None:
        """Mark the workloads of an outage as unknown once it has lasted for the grace period."""
        while True:
            await self._is_lost.wait()
            outage = self._outage
            if outage is None:
                continue
            due = outage.since + self._unknown_after_ms - self._clock.now()
            if due > 0:
                await self._clock.sleep(due / 1000)
            if self._outage is outage:
                message = f"the cluster cannot be reached, so this is its last known state: {outage.message}"
                event = EngineUnreachable(self._clock.now(), message)
                changed = await self._store.write(lambda tx, event=event: self._apply_to_all(tx, event))
                self._mark_changed(changed)
                self._is_lost.clear()

    def _apply_to_all(self, transaction: Transaction, event: LifecycleEvent) -> list[str]:
        workloads = rows.unfinished_of_cluster(transaction, self._cluster_id)
        changes = [(workload, change) for workload in workloads if (change := transition(workload, event)) is not None]
        transitions.apply_all(transaction, changes)
        return [workload.uid for workload, _ in changes]
