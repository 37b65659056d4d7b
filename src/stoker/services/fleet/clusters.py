"""Clusters: the places where workloads run."""

from stoker.domain.errors import not_found
from stoker.domain.identity import Cluster
from stoker.domain.listing import Listing, Window
from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, authorise
from stoker.store import clusters


class Clusters:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, text: str, window: Window) -> Listing[Cluster]:
        authorise(actor, Action.CLUSTER_READ)
        return await self._context.store.read(lambda tx: clusters.browse(tx, text, window))

    async def read(self, actor: Actor, ref: str) -> Cluster:
        authorise(actor, Action.CLUSTER_READ)
        cluster = await self._context.store.peek(lambda tx: clusters.find(tx, ref))
        if cluster is None:
            raise not_found("cluster", ref)
        return cluster
