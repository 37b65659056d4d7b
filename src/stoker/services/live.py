"""What the clusters look like now, as their controllers last published it.

A part is decoded and put together once for each time it was published; a read costs one look at the versions.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from stoker.domain.identity import Cluster
from stoker.domain.live import Consumer, Overview, Part, SourceState
from stoker.services.context import Context
from stoker.services.grids import GpuGrid, NodeGrid
from stoker.services.monitoring import clusters_of
from stoker.store import live_views
from stoker.store.base import Transaction

SILENT_MS = 90_000
"""Whoever publishes does so more often than this, or is not there any more."""
NOTHING_YET = SourceState("", None, stale=False, message="Nothing has been published of this cluster yet.")
DECODERS: dict[Part, Callable[[bytes], Any]] = {
    Part.OVERVIEW: live_views.decode_overview,
    Part.CONSUMERS: live_views.decode_consumers,
    Part.NODES: live_views.decode_nodes,
    Part.GPUS: live_views.decode_gpus,
}


class ClusterNow(Struct, frozen=True):
    """`overview` is None before the controller of a cluster has published anything; `age_ms` is of its readings."""

    cluster: Cluster
    overview: Overview | None
    source: SourceState
    age_ms: int | None


class Published(Struct, frozen=True):
    """A part of a cluster, decoded."""

    version: int
    value: Any


class Joined(Struct, frozen=True):
    """A part of all clusters, put together."""

    versions: tuple[tuple[str, int], ...]
    value: Any


class Live:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._published: dict[tuple[str, Part], Published] = {}
        self._joined: dict[Part, Joined] = {}

    async def clusters(self, cluster: str = "") -> list[ClusterNow]:
        """Every cluster, or the one that is named, by name."""
        found = await self._context.store.peek(lambda tx: self._read(tx, cluster, Part.OVERVIEW))
        now = self._context.clock.now()
        return [_cluster_now(each, published.value if published else None, now) for each, published in found]

    async def consumers(self, cluster: str = "") -> list[tuple[Cluster, Consumer]]:
        """Running workloads that hold GPUs, most GPUs first."""
        merged = await self._join(Part.CONSUMERS, _most_gpus_first)
        if not cluster:
            return merged
        wanted = await self.named(cluster)
        return [pair for pair in merged if pair[0].id == wanted.id]

    async def gpus(self) -> GpuGrid:
        return await self._join(Part.GPUS, GpuGrid)

    async def nodes(self) -> NodeGrid:
        return await self._join(Part.NODES, NodeGrid)

    async def named(self, cluster: str) -> Cluster:
        return await self._context.store.peek(lambda tx: clusters_of(tx, cluster)[0])

    async def _join(self, part: Part, join: Callable[[list[tuple[Cluster, Any]]], Any]) -> Any:
        found = await self._context.store.peek(lambda tx: self._read(tx, "", part))
        versions = tuple((cluster.id, published.version) for cluster, published in found if published)
        known = self._joined.get(part)
        if known is None or known.versions != versions:
            value = join([(cluster, published.value) for cluster, published in found if published])
            known = self._joined[part] = Joined(versions, value)
        return known.value

    def _read(self, transaction: Transaction, cluster: str, part: Part) -> list[tuple[Cluster, Published | None]]:
        return [(each, self._part(transaction, each.id, part)) for each in clusters_of(transaction, cluster)]

    def _part(self, transaction: Transaction, cluster_id: str, part: Part) -> Published | None:
        version = live_views.version(transaction, cluster_id, part)
        known = self._published.get((cluster_id, part))
        if known is not None and known.version == version:
            return known
        view = live_views.read(transaction, cluster_id, part) if version else None
        if view is None:
            return None
        known = self._published[cluster_id, part] = Published(view.version, DECODERS[part](view.body))
        return known


def stale_seconds(clusters: Sequence[ClusterNow]) -> int | None:
    """How old the oldest of the readings are that are older than they should be; None when all are fresh."""
    ages = [each.age_ms for each in clusters if each.source.stale and each.age_ms is not None]
    return max(ages) // 1000 if ages else None


def overviews(clusters: Sequence[ClusterNow]) -> list[Overview]:
    return [each.overview for each in clusters if each.overview is not None]


def _most_gpus_first(found: list[tuple[Cluster, list[Consumer]]]) -> list[tuple[Cluster, Consumer]]:
    pairs = [(cluster, consumer) for cluster, consumers in found for consumer in consumers]
    return sorted(pairs, key=lambda pair: (-pair[1].gpu_milli, pair[1].uid))


def _cluster_now(cluster: Cluster, overview: Overview | None, now: int) -> ClusterNow:
    if overview is None:
        return ClusterNow(cluster, None, NOTHING_YET, None)
    source = overview.source
    if now - overview.at > SILENT_MS and not source.stale:
        source = SourceState(source.name, source.read_at, stale=True, message="Its controller has gone silent.")
    age = now - (overview.at if source.read_at is None else source.read_at)
    return ClusterNow(cluster, overview, source, max(0, age))
