"""Closed usage hours of some workspaces, for callers who may not see the whole fleet.

Hours are read a day at a time, so that a long range is never in memory as a whole.
"""

from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

from msgspec import Struct, structs

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.hours import ClusterHour, DimensionHour, DimensionQuery, HoursQuery, NamespaceHour
from stoker.domain.usage.workspace_hours import (
    aggregate_dimension_hours,
    aggregate_namespace_hours,
    group_by_hour,
    scope_cluster_hour,
)
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.usage import queries, workspace_hours
from stoker.store.usage.queries import HourQuery

HOURS_BATCH_SIZE = 24
"""Hours that are read and summed together."""

T = TypeVar("T", bound=Struct)
FoldFn = Callable[[Transaction, HourQuery, tuple[int, ...], list[ClusterHour]], list[T]]


class WorkspaceHours(Generic[T]):
    """The closed hours of one level, restricted to the allocations of some workspaces."""

    def __init__(self, store: Store, workspace_ids: tuple[int, ...], fold: FoldFn[T]) -> None:
        self._store = store
        self._workspace_ids = workspace_ids
        self._fold = fold

    async def page(self, query: HourQuery, window: PageRequest) -> PageResult[T]:
        rows = [row async for batch in self.stream(query) for row in batch]
        return PageResult(rows[window.offset : window.offset + window.limit], len(rows))

    async def stream(self, query: HourQuery) -> AsyncIterator[list[T]]:
        last: ClusterHour | None = None
        while True:
            closed, batch = await self._store.read(lambda tx, after=last: self._read_after(tx, query, after))
            yield batch
            if len(closed) < HOURS_BATCH_SIZE:
                return
            last = closed[-1]

    def _read_after(
        self, transaction: Transaction, query: HourQuery, last: ClusterHour | None
    ) -> tuple[list[ClusterHour], list[T]]:
        all_hours = HoursQuery(query.cluster_id, query.from_at, query.to_at)
        closed = queries.hours_after(transaction, queries.CLUSTER_LEVEL, all_hours, last, HOURS_BATCH_SIZE)
        if not closed:
            return [], []
        batch_query = structs.replace(query, from_at=closed[0].hour_at, to_at=closed[-1].hour_at)
        return closed, self._fold(transaction, batch_query, self._workspace_ids, closed)


def fold_cluster(
    transaction: Transaction, query: HourQuery, workspace_ids: tuple[int, ...], closed: list[ClusterHour]
) -> list[ClusterHour]:
    allocated = group_by_hour(workspace_hours.hours_in_range(transaction, query, workspace_ids))
    visible = [found for each in workspace_ids if (found := workspaces.get(transaction, each)) is not None]
    quotas = [workspace.quota.gpu_milli for workspace in visible if workspace.cluster_id == query.cluster_id]
    return [scope_cluster_hour(hour, allocated.get(hour.hour_at, []), quotas) for hour in closed]


def fold_namespaces(
    transaction: Transaction, query: HourQuery, workspace_ids: tuple[int, ...], closed: list[ClusterHour]
) -> list[NamespaceHour]:
    hours = workspace_hours.hours_in_range(transaction, query, workspace_ids)
    return aggregate_namespace_hours(hours, workspace_hours.namespace_capacities(transaction, query)) if hours else []


def fold_dimensions(
    transaction: Transaction, query: HourQuery, workspace_ids: tuple[int, ...], closed: list[ClusterHour]
) -> list[DimensionHour]:
    if not isinstance(query, DimensionQuery):
        raise TypeError("a query of dimension hours needs a key")
    return aggregate_dimension_hours(workspace_hours.hours_in_range(transaction, query, workspace_ids), query)
