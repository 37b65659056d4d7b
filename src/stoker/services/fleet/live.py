"""The live views of all clusters, as their controllers last published them.

Each published view is decoded once; a read compares versions only. Large views are decoded in a thread, and meanwhile
readers get the previous version.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.live_view import ClusterSummary, CollectorStatus, GpuConsumer, LiveViewKind
from stoker.services.context import Context
from stoker.services.fleet.fleet_workloads import select_clusters
from stoker.services.fleet.gpu_grid import GpuGrid
from stoker.services.fleet.node_grid import NodeGrid
from stoker.store.cluster import live_views
from stoker.store.db.base import Transaction
from stoker.store.workloads import fleet_workloads

MAX_SILENT_PERIODS = 4
MIN_SILENT_MS = 90_000
"""A controller that has not published for this many sample periods, and at least this time, counts as silent."""
STALE_WAIT_SECONDS = 0.005
"""How long a reader waits for the new version before it gets the previous one."""
NOT_PUBLISHED_YET = CollectorStatus(
    "", None, stale=False, message="The controller of this cluster has not published anything yet."
)


class ClusterLiveStatus(Struct, frozen=True):
    """The overview of a cluster; None before its controller has published anything.

    `age_ms` is the age of the latest samples, or the time without any.
    """

    cluster: Cluster
    overview: ClusterSummary | None
    source: CollectorStatus
    age_ms: int | None


class DecodedView(Struct, frozen=True):
    """The views of one kind by cluster id, with their versions, and all of them combined."""

    versions: dict[str, int]
    views_by_cluster: dict[str, Any]
    combined: Any

    def is_at_most_one_behind(self, versions: dict[str, int]) -> bool:
        """Whether no cluster has published more than one newer version."""
        return versions.keys() == self.versions.keys() and all(
            version - self.versions[cluster_id] <= 1 for cluster_id, version in versions.items()
        )


class LiveViewReader:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._decoded_views: dict[LiveViewKind, DecodedView] = {}
        self._loading: dict[LiveViewKind, asyncio.Task[DecodedView]] = {}

    async def clusters(self, cluster: str = "") -> list[ClusterLiveStatus]:
        """Every cluster, or the named one, ordered by name."""
        clusters, overviews = await self._load(LiveViewKind.OVERVIEW)
        now = self._context.clock.now()
        silent_ms = max(MIN_SILENT_MS, MAX_SILENT_PERIODS * self._context.settings.sample_seconds * 1000)
        return [
            _live_status(selected, overviews.get(selected.id), now, silent_ms)
            for selected in select_clusters(clusters, cluster)
        ]

    async def consumers(self, cluster: str = "") -> list[tuple[Cluster, GpuConsumer]]:
        """Running workloads with GPUs, most GPUs first, without those deleted since the view was published."""
        clusters, consumers = await self._load(LiveViewKind.CONSUMERS)
        since = self._context.clock.now() - MIN_SILENT_MS
        deleted = await self._context.store.read_inline(lambda tx: fleet_workloads.deleted_since(tx, since))
        if deleted:
            consumers = [pair for pair in consumers if pair[1].uid not in deleted]
        if not cluster:
            return consumers
        [selected] = select_clusters(clusters, cluster)
        return [pair for pair in consumers if pair[0].id == selected.id]

    async def gpus(self) -> GpuGrid:
        return (await self._load(LiveViewKind.GPUS))[1]

    async def nodes(self) -> NodeGrid:
        return (await self._load(LiveViewKind.NODES))[1]

    async def _load(self, kind: LiveViewKind) -> tuple[list[Cluster], Any]:
        """All clusters, and their views of this kind combined."""
        published = await self._context.store.read_inline(lambda tx: live_views.versions_by_cluster(tx, kind))
        clusters = [cluster for cluster, _ in published]
        versions = {cluster.id: version for cluster, version in published if version}
        view = self._decoded_views.get(kind)
        if view is None or view.versions != versions:
            view = await self._load_newer(kind, clusters, versions, view)
        return clusters, view.combined

    async def _load_newer(
        self, kind: LiveViewKind, clusters: list[Cluster], versions: dict[str, int], previous: DecodedView | None
    ) -> DecodedView:
        if kind in INLINE_KINDS:
            return await self._context.store.read_inline(lambda tx: self._decode(tx, kind, clusters))
        loading = self._loading.get(kind)
        if loading is None or loading.done():
            loading = asyncio.ensure_future(self._context.store.read(lambda tx: self._decode(tx, kind, clusters)))
            loading.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._loading[kind] = loading
        if previous is not None and previous.is_at_most_one_behind(versions):
            await asyncio.wait({loading}, timeout=STALE_WAIT_SECONDS)
            return loading.result() if loading.done() else previous
        return await asyncio.shield(loading)

    def _decode(self, transaction: Transaction, kind: LiveViewKind, clusters: list[Cluster]) -> DecodedView:
        """Decode the views with a new version, and combine them with the others."""
        previous = self._decoded_views.get(kind)
        decode, combine = VIEW_DECODERS[kind]
        versions: dict[str, int] = {}
        views: dict[str, Any] = {}
        for cluster in clusters:
            version = live_views.version(transaction, cluster.id, kind)
            if previous is not None and previous.versions.get(cluster.id) == version:
                versions[cluster.id], views[cluster.id] = version, previous.views_by_cluster[cluster.id]
            elif (view := live_views.read(transaction, cluster.id, kind)) is not None:
                versions[cluster.id], views[cluster.id] = view.version, decode(view.body)
        combined = combine([(cluster, views[cluster.id]) for cluster in clusters if cluster.id in views])
        decoded = self._decoded_views[kind] = DecodedView(versions, views, combined)
        return decoded


def max_stale_seconds(clusters: Sequence[ClusterLiveStatus]) -> int | None:
    """The age of the oldest stale samples; None when all are fresh."""
    ages = [status.age_ms for status in clusters if status.source.stale and status.age_ms is not None]
    return max(ages) // 1000 if ages else None


def overviews(clusters: Sequence[ClusterLiveStatus]) -> list[ClusterSummary]:
    return [status.overview for status in clusters if status.overview is not None]


def _overview_by_cluster(views: list[tuple[Cluster, ClusterSummary]]) -> dict[str, ClusterSummary]:
    return {cluster.id: overview for cluster, overview in views}


def _sort_consumers(views: list[tuple[Cluster, list[GpuConsumer]]]) -> list[tuple[Cluster, GpuConsumer]]:
    pairs = [(cluster, consumer) for cluster, consumers in views for consumer in consumers]
    return sorted(pairs, key=lambda pair: (-pair[1].gpu_milli, pair[1].uid))


def _live_status(cluster: Cluster, overview: ClusterSummary | None, now: int, silent_ms: int) -> ClusterLiveStatus:
    if overview is None:
        return ClusterLiveStatus(cluster, None, NOT_PUBLISHED_YET, None)
    source = overview.source
    if now - overview.at > silent_ms and not source.stale:
        source = structs.replace(source, stale=True, message="Its controller has stopped publishing.")
    since = next(at for at in (source.read_at, source.asked_at, overview.at) if at is not None)
    return ClusterLiveStatus(cluster, overview, source, max(0, now - since))


VIEW_DECODERS: dict[LiveViewKind, tuple[Callable[[bytes], Any], Callable[[list[tuple[Cluster, Any]]], Any]]] = {
    LiveViewKind.OVERVIEW: (live_views.decode_overview, _overview_by_cluster),
    LiveViewKind.CONSUMERS: (live_views.decode_consumers, _sort_consumers),
    LiveViewKind.NODES: (live_views.decode_nodes, NodeGrid),
    LiveViewKind.GPUS: (live_views.decode_gpus, GpuGrid),
}
"""How a view of each kind is decoded, and how those of all clusters are combined."""
INLINE_KINDS = frozenset({LiveViewKind.OVERVIEW, LiveViewKind.CONSUMERS})
