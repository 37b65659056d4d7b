"""The workloads of the whole fleet, for whoever is let in to watch it."""

from msgspec import Struct, structs

from stoker.domain.errors import not_found
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.monitoring import Facets, Watched, WatchedQuery
from stoker.domain.ownership import Branch, Owned, tree
from stoker.domain.placement import carriers
from stoker.domain.workload import Pod
from stoker.services.context import Context
from stoker.store import clusters, monitoring, pods
from stoker.store.base import Transaction

POD = "Pod"
SHORT = 100
"""Items of a list that are looked up without a thread."""


class WatchedDetail(Struct, frozen=True):
    """A workload and the pods of its last attempt, by rank."""

    workload: Watched
    pods: list[Pod]


class Monitoring:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, query: WatchedQuery, window: Window) -> Listing[Watched]:
        def read(transaction: Transaction) -> Listing[Watched]:
            return monitoring.browse(transaction, query, cluster_id(transaction, query.cluster), window)

        short = window.limit <= SHORT and window.offset <= SHORT and not query.filters
        return await (self._context.store.peek(read) if short else self._context.store.read(read))

    async def find(self, ref: str, cluster: str = "") -> WatchedDetail | None:
        """A workload by uid or slug; None when it is absent, deleted, or on another cluster."""

        def read(transaction: Transaction) -> WatchedDetail | None:
            workload = watched(transaction, ref, cluster)
            if workload is None:
                return None
            carried = pods.of_attempt(transaction, workload.uid, workload.attempt)
            held = monitoring.held_gpus(transaction, {workload.uid: workload.ended_at is not None})
            gpus = held.get(workload.uid, {})
            return WatchedDetail(structs.replace(workload, gpus=gpus), carriers(carried, workload.replicas))

        return await self._context.store.peek(read)

    async def identify(self, ref: str, cluster: str = "") -> Watched | None:
        """The same without its pods and GPUs."""
        return await self._context.store.peek(lambda tx: watched(tx, ref, cluster))

    async def hierarchy(self, ref: str, cluster: str = "") -> Branch | None:
        """A workload and all that it owns, down to the pods."""
        found = await self.find(ref, cluster)
        if found is None:
            return None
        root = found.workload
        return tree(
            Owned(root.uid, root.kind, root.name, root.namespace, ""),
            [Owned(pod.uid, POD, pod.name, root.namespace, root.uid) for pod in found.pods],
        )

    async def facets(self, cluster: str = "") -> Facets:
        return await self._context.store.peek(lambda tx: monitoring.facets(tx, cluster_id(tx, cluster)))


def named(found: list[Cluster], cluster: str) -> list[Cluster]:
    """The one of this name or id, or all of them when none is asked for."""
    if not cluster:
        return found
    wanted = [each for each in found if cluster in (each.name, each.id)]
    if not wanted:
        raise not_found("cluster", cluster)
    return wanted


def cluster_id(transaction: Transaction, cluster: str) -> str:
    """The id of a cluster that is named; nothing when none is."""
    return named(clusters.every(transaction), cluster)[0].id if cluster else ""


def watched(transaction: Transaction, ref: str, cluster: str) -> Watched | None:
    """A workload without its GPUs, if it is on the cluster that is named."""
    wanted = cluster_id(transaction, cluster)
    found = monitoring.find(transaction, ref)
    return None if found is None or (wanted and found.cluster_id != wanted) else found
