"""Usage as it was closed hour by hour, and who held what in between, for whoever is let in to watch the fleet."""

from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError, not_found
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.usage import DimensionQuery, HoursQuery, Snapshot, WorkloadHour
from stoker.services.context import Context
from stoker.store import clusters, snapshots, usage_list
from stoker.store.base import Store, Transaction
from stoker.store.usage_list import Level, Query

AT_ONCE = 500
"""Rows that are read together when all of a range are asked for."""
DETAILED_AT_ONCE = 4
"""The same of snapshots with their workloads, of which there may be many thousands in each."""

T = TypeVar("T", bound=Struct)


class Hours(Generic[T]):
    """The closed hours of one level."""

    def __init__(self, store: Store, level: Level[T]) -> None:
        self._store = store
        self._level = level

    async def page(self, query: Query, window: Window) -> Listing[T]:
        return await self._store.read(lambda tx: usage_list.page(tx, self._level, query, window))

    async def stream(self, query: Query) -> AsyncIterator[list[T]]:
        """All of a range in parts, so that a long one is never in memory as a whole."""
        last: T | None = None
        while True:
            part = await self._store.read(lambda tx, after=last: self._after(tx, query, after))
            yield part
            if len(part) < AT_ONCE:
                return
            last = part[-1]

    def _after(self, transaction: Transaction, query: Query, last: T | None) -> list[T]:
        return usage_list.following(transaction, self._level, query, last, AT_ONCE)


class Usage:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self.cluster_hours = Hours(context.store, usage_list.CLUSTER)
        self.namespace_hours = Hours(context.store, usage_list.NAMESPACE)
        self.dimension_hours = Hours(context.store, usage_list.DIMENSION)

    async def cluster(self, ref: str) -> Cluster:
        """The cluster of this name or id, or the default one."""
        wanted = ref or self._context.settings.default_cluster
        cluster = await self._store.peek(lambda tx: clusters.find(tx, wanted))
        if cluster is None:
            raise not_found("cluster", wanted)
        return cluster

    async def clusters(self, between: tuple[int, int] | None = None) -> list[str]:
        """The names of all clusters, or of those that have hours in a range."""
        if between is None:
            return [cluster.name for cluster in await self._store.peek(clusters.every)]
        return await self._store.read(lambda tx: usage_list.clusters(tx, *between))

    async def workloads(self, query: HoursQuery, window: Window) -> Listing[WorkloadHour]:
        return await self._store.read(lambda tx: usage_list.workloads(tx, query, window))

    async def namespaces(self, query: HoursQuery) -> list[str]:
        return await self._store.read(lambda tx: usage_list.namespaces(tx, query))

    async def dimension_keys(self, query: DimensionQuery) -> list[str]:
        return await self._store.read(lambda tx: usage_list.dimension_keys(tx, query))

    async def dimension_values(self, query: DimensionQuery) -> list[str]:
        return await self._store.read(lambda tx: usage_list.dimension_values(tx, query))

    async def latest(self, cluster: Cluster) -> Snapshot:
        found = await self._store.read(lambda tx: snapshots.latest(tx, cluster.id))
        if found is None:
            raise StokerError(
                ErrorCode.NOT_FOUND,
                f'There is no snapshot of cluster "{cluster.name}" yet.',
                hint=f"One is taken every {self._context.settings.snapshot_seconds} s while the cluster is driven.",
            )
        return found

    async def snapshots(
        self, cluster_id: str, from_at: int, to_at: int, *, details: bool
    ) -> AsyncIterator[list[Snapshot]]:
        """Those of a range in parts, oldest first, both ends included."""
        limit = DETAILED_AT_ONCE if details else AT_ONCE
        while True:
            part = await self._store.read(
                lambda tx, begin=from_at: snapshots.during(tx, cluster_id, begin, to_at, details=details, limit=limit)
            )
            yield part
            if len(part) < limit:
                return
            from_at = part[-1].at + 1
