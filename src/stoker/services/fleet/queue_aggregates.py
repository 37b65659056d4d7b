"""The numbers of workloads in all clusters. What waits is counted again only when something has changed."""

from msgspec import Struct

from stoker.services.context import Context
from stoker.store import changes, totals
from stoker.store.base import Transaction
from stoker.store.totals import HeldTotal, PhaseTotal, QueueTotal


class Counted(Struct, frozen=True):
    change: int
    phases: tuple[PhaseTotal, ...]
    queues: tuple[QueueTotal, ...]


class Totals:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._counted: Counted | None = None

    async def read(self) -> Counted:
        self._counted = await self._context.store.read(self._count)
        return self._counted

    async def held(self) -> dict[int, HeldTotal]:
        """By workspace, what is given out to it now."""
        return await self._context.store.read(totals.held)

    def _count(self, transaction: Transaction) -> Counted:
        change, phases = changes.last(transaction), totals.phases(transaction)
        known = self._counted
        if known is not None and (known.change, known.phases) == (change, phases):
            return known
        return Counted(change, phases, totals.queues(transaction))
