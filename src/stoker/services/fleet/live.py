"""What the clusters look like now, as their controllers last published it.

A part is decoded and put together once for each time it was published; a read costs one look at the versions. What is
large is put together in a thread, and meanwhile the picture of one publication before is still good.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, structs

from stoker.domain.identity import Cluster
from stoker.domain.live import Consumer, Overview, Part, SourceState
from stoker.services.context import Context
from stoker.services.grids import GpuGrid, NodeGrid
from stoker.services.monitoring import named
from stoker.store import live_views, monitoring
from stoker.store.base import Transaction

SILENT_PERIODS = 4
SILENT_MS = 90_000
"""Whoever publishes does so at least once in so many periods, or in this time; else it is not there any more."""
PATIENCE_SECONDS = 0.005
"""How long a picture of before is held back for the one that is being made."""
NOTHING_YET = SourceState("", None, stale=False, message="Nothing has been published of this cluster yet.")


class ClusterNow(Struct, frozen=True):
    """`overview` is None before the controller of a cluster has published anything; `age_ms` is of its readings, or for
    how long there have been none."""

    cluster: Cluster
    overview: Overview | None
    source: SourceState
    age_ms: int | None


class Picture(Struct, frozen=True):
    """A part of every cluster by its id, each with the version it has, and all of them put together."""

    versions: dict[str, int]
    parts: dict[str, Any]
    whole: Any

    def nearly(self, versions: dict[str, int]) -> bool:
        """Whether it is at most one publication behind these."""
        return versions.keys() == self.versions.keys() and all(
            version - self.versions[cluster_id] <= 1 for cluster_id, version in versions.items()
        )


class Live:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._pictures: dict[Part, Picture] = {}
        self._making: dict[Part, asyncio.Task[Picture]] = {}

    async def clusters(self, cluster: str = "") -> list[ClusterNow]:
        """Every cluster, or the one that is named, by name."""
        found, published = await self._look(Part.OVERVIEW)
        now = self._context.clock.now()
        silent = max(SILENT_MS, SILENT_PERIODS * self._context.settings.sample_seconds * 1000)
        return [_cluster_now(each, published.get(each.id), now, silent) for each in named(found, cluster)]

    async def consumers(self, cluster: str = "") -> list[tuple[Cluster, Consumer]]:
        """Running workloads that hold GPUs, most GPUs first; one that was deleted after the look is not among them."""
        found, consumers = await self._look(Part.CONSUMERS)
        since = self._context.clock.now() - SILENT_MS
        gone = await self._context.store.peek(lambda tx: monitoring.deleted_since(tx, since))
        if gone:
            consumers = [pair for pair in consumers if pair[1].uid not in gone]
        if not cluster:
            return consumers
        [wanted] = named(found, cluster)
        return [pair for pair in consumers if pair[0].id == wanted.id]

    async def gpus(self) -> GpuGrid:
        return (await self._look(Part.GPUS))[1]

    async def nodes(self) -> NodeGrid:
        return (await self._look(Part.NODES))[1]

    async def _look(self, part: Part) -> tuple[list[Cluster], Any]:
        """All clusters, and this part of them as it was last published."""
        published = await self._context.store.peek(lambda tx: live_views.versions(tx, part))
        clusters = [cluster for cluster, _ in published]
        versions = {cluster.id: version for cluster, version in published if version}
        known = self._pictures.get(part)
        if known is None or known.versions != versions:
            known = await self._newer(part, clusters, versions, known)
        return clusters, known.whole

    async def _newer(
        self, part: Part, clusters: list[Cluster], versions: dict[str, int], known: Picture | None
    ) -> Picture:
        if part in SMALL:
            return await self._context.store.peek(lambda tx: self._make(tx, part, clusters))
        making = self._making.get(part)
        if making is None or making.done():
            making = asyncio.ensure_future(self._context.store.read(lambda tx: self._make(tx, part, clusters)))
            making.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._making[part] = making
        if known is not None and known.nearly(versions):
            await asyncio.wait({making}, timeout=PATIENCE_SECONDS)
            return making.result() if making.done() else known
        return await asyncio.shield(making)

    def _make(self, transaction: Transaction, part: Part, clusters: list[Cluster]) -> Picture:
        """Decode what is new of a part, and put it together with what is not."""
        before = self._pictures.get(part)
        decode, join = MADE_OF[part]
        versions: dict[str, int] = {}
        parts: dict[str, Any] = {}
        for cluster in clusters:
            version = live_views.version(transaction, cluster.id, part)
            if before is not None and before.versions.get(cluster.id) == version:
                versions[cluster.id], parts[cluster.id] = version, before.parts[cluster.id]
            elif (view := live_views.read(transaction, cluster.id, part)) is not None:
                versions[cluster.id], parts[cluster.id] = view.version, decode(view.body)
        whole = join([(cluster, parts[cluster.id]) for cluster in clusters if cluster.id in parts])
        made = self._pictures[part] = Picture(versions, parts, whole)
        return made


def stale_seconds(clusters: Sequence[ClusterNow]) -> int | None:
    """How old the oldest of the readings are that are older than they should be; None when all are fresh."""
    ages = [each.age_ms for each in clusters if each.source.stale and each.age_ms is not None]
    return max(ages) // 1000 if ages else None


def overviews(clusters: Sequence[ClusterNow]) -> list[Overview]:
    return [each.overview for each in clusters if each.overview is not None]


def _by_cluster(found: list[tuple[Cluster, Overview]]) -> dict[str, Overview]:
    return {cluster.id: overview for cluster, overview in found}


def _most_gpus_first(found: list[tuple[Cluster, list[Consumer]]]) -> list[tuple[Cluster, Consumer]]:
    pairs = [(cluster, consumer) for cluster, consumers in found for consumer in consumers]
    return sorted(pairs, key=lambda pair: (-pair[1].gpu_milli, pair[1].uid))


def _cluster_now(cluster: Cluster, overview: Overview | None, now: int, silent_ms: int) -> ClusterNow:
    if overview is None:
        return ClusterNow(cluster, None, NOTHING_YET, None)
    source = overview.source
    if now - overview.at > silent_ms and not source.stale:
        source = structs.replace(source, stale=True, message="Its controller has gone silent.")
    since = next(at for at in (source.read_at, source.asked_at, overview.at) if at is not None)
    return ClusterNow(cluster, overview, source, max(0, now - since))


MADE_OF: dict[Part, tuple[Callable[[bytes], Any], Callable[[list[tuple[Cluster, Any]]], Any]]] = {
    Part.OVERVIEW: (live_views.decode_overview, _by_cluster),
    Part.CONSUMERS: (live_views.decode_consumers, _most_gpus_first),
    Part.NODES: (live_views.decode_nodes, NodeGrid),
    Part.GPUS: (live_views.decode_gpus, GpuGrid),
}
"""How each part is decoded, and how that of several clusters is put together."""
SMALL = frozenset({Part.OVERVIEW, Part.CONSUMERS})
