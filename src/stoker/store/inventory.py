"""Workloads by anything that is known of them: filters, search and an order, at any number of them."""

from stoker.domain.inventory import InventoryQuery
from stoker.domain.listing import Window
from stoker.store import inventory_asked
from stoker.store.base import Transaction
from stoker.store.inventory_asked import Asked, asked_for
from stoker.store.inventory_filters import COLUMNS, Clause, counted, one_of, other
from stoker.store.inventory_pages import Pages
from stoker.store.inventory_search import search_clause


def count(transaction: Transaction, query: InventoryQuery, now: int) -> int:
    return inventory_asked.count(transaction, _asked(transaction, query, now))


def page(transaction: Transaction, query: InventoryQuery, window: Window, now: int) -> tuple[list[str], bool]:
    """The uids of one page in order, and whether there are more."""
    pages = Pages(transaction, descending=query.descending)
    found = pages.of(_asked(transaction, query, now), query.sort, window.offset, window.limit + 1)
    return found[: window.limit], len(found) > window.limit


def _asked(transaction: Transaction, query: InventoryQuery, now: int) -> Asked:
    counts: list[Clause] = []
    others: list[Clause] = []
    if query.workspace_ids is not None:
        counts.append(one_of("workspace_id", query.workspace_ids, "seen"))
    for number, each in enumerate(query.filters):
        if each.field in COLUMNS:
            counts += [clause] if (clause := counted(transaction, each, f"count_{number}")) else []
        else:
            others += [clause] if (clause := other(each, f"other_{number}")) else []
    if query.search:
        others.append(search_clause(transaction, query.search))
    return asked_for(
        transaction, now, counts, others, search=query.search, deleted=query.deleted, leaving=not query.deleted
    )
