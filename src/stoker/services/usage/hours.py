"""Closed usage hours and allocation snapshots, for callers of the monitoring APIs.

Every read is limited to what `visible_workspaces` allows the caller: the whole fleet, or its workspaces.
"""

from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar, overload

from msgspec import Struct, structs

from stoker.domain.access.identity import Cluster, Workspace
from stoker.domain.access.permissions import Actor
from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.hours import (
    ClusterHour,
    DimensionHour,
    DimensionQuery,
    HoursQuery,
    NamespaceHour,
    WorkloadHour,
)
from stoker.domain.usage.ledger import PER_POD_LABELS
from stoker.domain.usage.snapshots import AllocationSnapshot
from stoker.services.access import VisibleWorkspaces, visible_workspaces
from stoker.services.context import Context
from stoker.services.usage.workspace_hours import WorkspaceHours, fold_cluster, fold_dimensions, fold_namespaces
from stoker.store.cluster import clusters
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.usage import queries, snapshots, workspace_hours
from stoker.store.usage.queries import HourLevel, HourQuery
from stoker.store.workloads import fleet_workloads

HOURS_BATCH_SIZE = 500
"""Rows per read when a whole range is streamed."""
DETAILED_SNAPSHOTS_BATCH_SIZE = 4
"""Snapshots per read with their workloads; one may have many thousands."""

T = TypeVar("T", bound=Struct)


class HoursReader(Protocol[T]):
    """The closed hours of one level that one caller may see."""

    async def page(self, query: HourQuery, window: PageRequest) -> PageResult[T]: ...
    def stream(self, query: HourQuery) -> AsyncIterator[list[T]]: ...


class FleetHours(Generic[T]):
    """The closed hours of one level, of the whole fleet."""

    def __init__(self, store: Store, level: HourLevel[T]) -> None:
        self._store = store
        self._level = level

    async def page(self, query: HourQuery, window: PageRequest) -> PageResult[T]:
        return await self._store.read(lambda tx: queries.list_hours(tx, self._level, query, window))

    async def stream(self, query: HourQuery) -> AsyncIterator[list[T]]:
        """All hours of a range in batches, so that a long range is never in memory as a whole."""
        last: T | None = None
        while True:
            batch = await self._store.read(lambda tx, after=last: self._read_after(tx, query, after))
            yield batch
            if len(batch) < HOURS_BATCH_SIZE:
                return
            last = batch[-1]

    def _read_after(self, transaction: Transaction, query: HourQuery, last: T | None) -> list[T]:
        return queries.hours_after(transaction, self._level, query, last, HOURS_BATCH_SIZE)


class UsageService:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def cluster_hours(self, actor: Actor | None) -> HoursReader[ClusterHour]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return FleetHours(self._store, queries.CLUSTER_LEVEL)
        return WorkspaceHours(self._store, workspace_ids, fold_cluster)

    def namespace_hours(self, actor: Actor | None) -> HoursReader[NamespaceHour]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return FleetHours(self._store, queries.NAMESPACE_LEVEL)
        return WorkspaceHours(self._store, workspace_ids, fold_namespaces)

    def dimension_hours(self, actor: Actor | None) -> HoursReader[DimensionHour]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return FleetHours(self._store, queries.DIMENSION_LEVEL)
        return WorkspaceHours(self._store, workspace_ids, fold_dimensions)

    async def get_cluster(self, ref: str) -> Cluster:
        """The cluster of this name or id, or the default cluster."""
        name = ref or self._context.settings.default_cluster
        return await self._store.read_inline(lambda tx: clusters.get(tx, name))

    async def cluster_names(self, actor: Actor | None, between: tuple[int, int] | None = None) -> list[str]:
        """The names of the visible clusters, or of those with closed hours in a range."""
        workspace_ids = visible_workspaces(self._context, actor)
        if between is not None and workspace_ids is None:
            return await self._store.read(lambda tx: queries.cluster_names(tx, *between))
        if between is not None and workspace_ids is not None:
            return await self._store.read(lambda tx: workspace_hours.cluster_names(tx, *between, workspace_ids))
        all_clusters = await self._store.read_inline(clusters.all_clusters)
        if workspace_ids is None:
            return [cluster.name for cluster in all_clusters]
        visible = await self._store.read_inline(
            lambda tx: {workspace.cluster_id for workspace in _workspaces_by_id(tx, workspace_ids)}
        )
        return [cluster.name for cluster in all_clusters if cluster.id in visible]

    async def list_workload_hours(
        self, actor: Actor | None, query: HoursQuery, window: PageRequest
    ) -> PageResult[WorkloadHour]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return await self._store.read(lambda tx: queries.list_workload_hours(tx, query, window))
        return await self._store.read(lambda tx: workspace_hours.list_workload_hours(tx, query, workspace_ids, window))

    async def namespace_names(self, actor: Actor | None, query: HoursQuery) -> list[str]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return await self._store.read(lambda tx: queries.namespace_names(tx, query))
        return await self._store.read(lambda tx: workspace_hours.namespace_names(tx, query, workspace_ids))

    async def dimension_keys(self, actor: Actor | None, query: DimensionQuery) -> list[str]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return await self._store.read(lambda tx: queries.dimension_keys(tx, query))
        label_sets = await self._store.read(lambda tx: workspace_hours.distinct_labels(tx, query, workspace_ids))
        return sorted({key for labels in label_sets for key in labels if key not in PER_POD_LABELS})

    async def dimension_values(self, actor: Actor | None, query: DimensionQuery) -> list[str]:
        workspace_ids = visible_workspaces(self._context, actor)
        if workspace_ids is None:
            return await self._store.read(lambda tx: queries.dimension_values(tx, query))
        label_sets = await self._store.read(lambda tx: workspace_hours.distinct_labels(tx, query, workspace_ids))
        return sorted(
            {labels[query.key] for labels in label_sets if query.key in labels and query.key not in PER_POD_LABELS}
        )

    async def latest_snapshot(self, actor: Actor | None, cluster: Cluster) -> AllocationSnapshot:
        workspace_ids = visible_workspaces(self._context, actor)
        snapshot = await self._store.read(
            lambda tx: _restrict_snapshot(tx, cluster.id, snapshots.latest(tx, cluster.id), workspace_ids)
        )
        if snapshot is None:
            raise StokerError(
                ErrorCode.NOT_FOUND,
                f'There is no snapshot of cluster "{cluster.name}" yet.',
                hint=f"One is taken every {self._context.settings.snapshot_seconds} s while the cluster has a leader.",
            )
        return snapshot

    async def stream_snapshots(
        self, actor: Actor | None, cluster_id: str, from_at: int, to_at: int, *, details: bool
    ) -> AsyncIterator[list[AllocationSnapshot]]:
        """The snapshots of a range in batches, oldest first, both ends included."""
        workspace_ids = visible_workspaces(self._context, actor)
        with_workloads = details or workspace_ids is not None
        limit = DETAILED_SNAPSHOTS_BATCH_SIZE if with_workloads else HOURS_BATCH_SIZE

        def read(transaction: Transaction, begin: int) -> list[AllocationSnapshot]:
            batch = snapshots.in_range(transaction, cluster_id, begin, to_at, details=with_workloads, limit=limit)
            return [_restrict_snapshot(transaction, cluster_id, snapshot, workspace_ids) for snapshot in batch]

        while True:
            batch = await self._store.read(lambda tx, begin=from_at: read(tx, begin))
            yield batch if details else [structs.replace(snapshot, workloads=None) for snapshot in batch]
            if len(batch) < limit:
                return
            from_at = batch[-1].at + 1


def _workspaces_by_id(transaction: Transaction, workspace_ids: tuple[int, ...]) -> list[Workspace]:
    return [found for each in workspace_ids if (found := workspaces.get(transaction, each)) is not None]


@overload
def _restrict_snapshot(
    transaction: Transaction, cluster_id: str, snapshot: AllocationSnapshot, workspace_ids: VisibleWorkspaces
) -> AllocationSnapshot: ...
@overload
def _restrict_snapshot(
    transaction: Transaction, cluster_id: str, snapshot: AllocationSnapshot | None, workspace_ids: VisibleWorkspaces
) -> AllocationSnapshot | None: ...
def _restrict_snapshot(
    transaction: Transaction, cluster_id: str, snapshot: AllocationSnapshot | None, workspace_ids: VisibleWorkspaces
) -> AllocationSnapshot | None:
    """The visible part of a snapshot; its GPU count is the quota of the visible workspaces."""
    if snapshot is None or workspace_ids is None:
        return snapshot
    workloads = snapshot.workloads or []
    visible_uids = fleet_workloads.filter_by_workspace(
        transaction, [workload.uid for workload in workloads], workspace_ids
    )
    visible = [workload for workload in workloads if workload.uid in visible_uids]
    quotas = [
        workspace.quota.gpu_milli
        for workspace in _workspaces_by_id(transaction, workspace_ids)
        if workspace.cluster_id == cluster_id
    ]
    gpus = sum(snapshot.gpus if quota is None else quota // MILLI for quota in quotas)
    allocated = sum(workload.gpu_milli for workload in visible)
    return structs.replace(snapshot, gpus=min(snapshot.gpus, gpus), allocated_milli=allocated, workloads=visible)
