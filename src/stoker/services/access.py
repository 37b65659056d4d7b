"""Which workloads a caller may know of."""

from stoker.domain.errors import not_found
from stoker.domain.permissions import Action, Actor, Target
from stoker.services.context import authorise
from stoker.store import workload_list
from stoker.store.base import Transaction
from stoker.store.workload_list import Entry


def visible(transaction: Transaction, actor: Actor, ref: str) -> Entry:
    """The workload, if the caller may know of it; absent, deleted and hidden look the same."""
    entry = remembered(transaction, actor, ref)
    if entry.workload.deleted_at is not None:
        raise not_found("workload", ref)
    return entry


def remembered(transaction: Transaction, actor: Actor, ref: str) -> Entry:
    """The same of a workload that may be deleted."""
    entry = workload_list.find(transaction, ref)
    if entry is None or not (actor.admin or entry.workload.workspace_id in actor.memberships):
        raise not_found("workload", ref)
    authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=entry.workload.workspace_id))
    return entry
