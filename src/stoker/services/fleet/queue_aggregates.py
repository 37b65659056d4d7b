"""Workload counts of all clusters by phase and queue. The queues are counted again only after a workload event."""

from msgspec import Struct

from stoker.services.context import Context
from stoker.store.db.base import Transaction
from stoker.store.workloads import aggregates, events
from stoker.store.workloads.aggregates import PhaseCount, QueueBacklog, WorkspaceAllocation


class WorkloadCounts(Struct, frozen=True):
    last_seq: int
    phases: tuple[PhaseCount, ...]
    queues: tuple[QueueBacklog, ...]


class QueueAggregates:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._cached: WorkloadCounts | None = None

    async def read(self) -> WorkloadCounts:
        self._cached = await self._context.store.read(self._read_counts)
        return self._cached

    async def allocated_by_workspace(self) -> dict[int, WorkspaceAllocation]:
        """The resources allocated now, by workspace id."""
        return await self._context.store.read(aggregates.allocated_by_workspace)

    def _read_counts(self, transaction: Transaction) -> WorkloadCounts:
        last_seq, phases = events.last_seq(transaction), aggregates.workloads_by_phase(transaction)
        cached = self._cached
        if cached is not None and (cached.last_seq, cached.phases) == (last_seq, phases):
            return cached
        return WorkloadCounts(last_seq, phases, aggregates.pending_by_queue(transaction))
