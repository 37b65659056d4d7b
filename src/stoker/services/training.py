"""Training metrics of a workload: what was parsed from its logs and what its code reported, read as one series."""

from collections.abc import AsyncIterator

from stoker.domain.errors import not_found
from stoker.domain.points import Points
from stoker.domain.series import Point
from stoker.domain.training import TrainingPoint
from stoker.services.context import Context
from stoker.store import training, workload_list
from stoker.store.base import Transaction

AT_ONCE = 5_000


class Training:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def points(self, ref: str, start: int, end: int) -> list[TrainingPoint]:
        """Every point of a range, by metric, then time; for anyone who may watch the fleet."""
        return list((await self._read(ref, start, end)).rows())

    async def stream(self, ref: str, start: int, end: int) -> AsyncIterator[list[TrainingPoint]]:
        """The same in parts, so that a long range is never in memory as a whole."""
        found = await self._read(ref, start, end)
        for first in range(0, len(found), AT_ONCE):
            yield list(found.rows(first, first + AT_ONCE))

    async def values(self, uid: str, metric: str, start: int, end: int) -> list[Point]:
        """One metric of a range, by time."""

        def query(transaction: Transaction) -> list[Point]:
            found = training.points(transaction, uid, start, end)
            if metric not in found.names:
                return []
            of_it = found.metric == found.names.index(metric)
            return list(zip(found.value[of_it].tolist(), found.at[of_it].tolist(), strict=True))

        return await self._context.store.read(query)

    async def _read(self, ref: str, start: int, end: int) -> Points:
        def query(transaction: Transaction) -> Points:
            entry = workload_list.find(transaction, ref)
            if entry is None or entry.workload.deleted_at is not None:
                raise not_found("workload", ref)
            return training.points(transaction, entry.workload.uid, start, end)

        return await self._context.store.read(query)
