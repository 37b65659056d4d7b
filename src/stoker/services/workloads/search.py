"""Every workload that the caller may see, by anything that is known of it."""

from msgspec import structs

from stoker.domain.errors import not_found
from stoker.domain.inventory import Detail, Field, Filter, Found, InventoryQuery, Operator
from stoker.domain.listing import Window
from stoker.domain.permissions import Action, Actor, Target
from stoker.services.context import Context, authorise
from stoker.services.monitoring import cluster_id
from stoker.store import inventory, inventory_rows, pods, workloads
from stoker.store.base import Transaction


class Inventory:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, query: InventoryQuery, window: Window) -> Found:
        """Admins see all, others what is in their workspaces."""
        seen = self._seen(actor, query)
        now = self._context.clock.now()

        def read(transaction: Transaction) -> Found:
            uids, more = inventory.page(transaction, _in_cluster(transaction, seen), window, now)
            return Found(inventory_rows.read(transaction, uids), more, now)

        return await self._context.store.read(read)

    async def count(self, actor: Actor, query: InventoryQuery) -> int:
        seen = self._seen(actor, query)
        now = self._context.clock.now()
        return await self._context.store.read(lambda tx: inventory.count(tx, _in_cluster(tx, seen), now))

    async def read(self, actor: Actor, ref: str) -> Detail:
        """A workload by uid or slug, one that is deleted too."""

        def query(transaction: Transaction) -> Detail:
            workload = workloads.find(transaction, ref)
            if workload is None or not (actor.admin or workload.workspace_id in actor.memberships):
                raise not_found("workload", ref)
            authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=workload.workspace_id))
            [listed] = inventory_rows.read(transaction, [workload.uid])
            carried = pods.of_attempt(transaction, workload.uid, workload.attempt)
            return Detail(listed, carried, self._context.clock.now())

        return await self._context.store.read(query)

    def _seen(self, actor: Actor, query: InventoryQuery) -> InventoryQuery:
        authorise(actor, Action.WORKLOAD_LIST)
        return query if actor.admin else structs.replace(query, workspace_ids=tuple(sorted(actor.memberships)))


def _in_cluster(transaction: Transaction, query: InventoryQuery) -> InventoryQuery:
    """The same of one cluster, if one is named."""
    if not query.cluster:
        return query
    only = Filter(Field.CLUSTER, Operator.EQUAL, cluster_id(transaction, query.cluster))
    return structs.replace(query, filters=(*query.filters, only))
