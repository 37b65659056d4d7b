"""Pods of all workloads that the caller may see."""

from msgspec import Struct, structs

from stoker.domain.listing import PodQuery, Window
from stoker.domain.permissions import Action, Actor
from stoker.services.context import Context, authorise
from stoker.services.visible import remembered
from stoker.store import pod_list
from stoker.store.base import Transaction
from stoker.store.pod_list import PodEntry


class FoundPods(Struct, frozen=True):
    """A part of a list; `more` when there is something behind it."""

    entries: list[PodEntry]
    more: bool


class Pods:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def browse(self, actor: Actor, query: PodQuery, window: Window) -> FoundPods:
        """Admins see all, others what is in their workspaces; those of one workload when it is named, also if it is
        deleted."""
        authorise(actor, Action.WORKLOAD_LIST)

        def read(transaction: Transaction) -> FoundPods:
            one_more = Window(window.offset, window.limit + 1)
            found = pod_list.browse(transaction, _seen(transaction, actor, query), one_more)
            return FoundPods(found[: window.limit], len(found) > window.limit)

        return await self._context.store.read(read)

    async def count(self, actor: Actor, query: PodQuery) -> int:
        authorise(actor, Action.WORKLOAD_LIST)
        return await self._context.store.read(lambda tx: pod_list.count(tx, _seen(tx, actor, query)))


def _seen(transaction: Transaction, actor: Actor, query: PodQuery) -> PodQuery:
    ids = None if actor.admin else tuple(sorted(actor.memberships))
    uid = remembered(transaction, actor, query.workload_uid).workload.uid if query.workload_uid else ""
    return structs.replace(query, workspace_ids=ids, workload_uid=uid)
