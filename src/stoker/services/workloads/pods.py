"""Lists of pods, limited to the workloads that the caller may see."""

from msgspec import Struct, structs

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.pod_query import PodQuery
from stoker.services.access import get_visible_or_deleted
from stoker.services.context import Context, authorise
from stoker.store.db.base import Transaction
from stoker.store.workloads import pod_list
from stoker.store.workloads.pod_list import PodEntry


class PodPage(Struct, frozen=True):
    """One page of pods."""

    entries: list[PodEntry]
    has_more: bool


class PodService:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def list_pods(self, actor: Actor, query: PodQuery, window: PageRequest) -> PodPage:
        """Admins see all pods, others those of their workspaces. A query may name one workload, deleted or not."""
        authorise(actor, Action.WORKLOAD_LIST)

        def read(transaction: Transaction) -> PodPage:
            one_more = PageRequest(window.offset, window.limit + 1)
            entries = pod_list.list_pods(transaction, _restrict_to_visible(transaction, actor, query), one_more)
            return PodPage(entries[: window.limit], len(entries) > window.limit)

        return await self._context.store.read(read)

    async def count(self, actor: Actor, query: PodQuery) -> int:
        authorise(actor, Action.WORKLOAD_LIST)
        return await self._context.store.read(lambda tx: pod_list.count(tx, _restrict_to_visible(tx, actor, query)))


def _restrict_to_visible(transaction: Transaction, actor: Actor, query: PodQuery) -> PodQuery:
    uid = get_visible_or_deleted(transaction, actor, query.workload_uid).workload.uid if query.workload_uid else ""
    return structs.replace(query, workspace_ids=actor.visible_workspaces, workload_uid=uid)
