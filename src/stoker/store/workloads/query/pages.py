"""Pages and counts of workloads for a query.

A projection turns the uids of a page into the rows that a caller needs; it must keep their order.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.queries.workload_query import WorkloadQuery
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.candidates import count_matches
from stoker.store.workloads.query.paginator import Paginator
from stoker.store.workloads.query.plan import plan_query

T = TypeVar("T")
Projection = Callable[[Transaction, Sequence[str]], list[T]]


def fetch_page(
    transaction: Transaction, query: WorkloadQuery, window: PageRequest, now: int, project: Projection[T]
) -> PageResult[T]:
    """One page, and the total over all pages."""
    plan = plan_query(transaction, query, now)
    uids = Paginator(transaction, query.sort).page(plan, window.offset, window.limit)
    return PageResult(project(transaction, uids), count_matches(transaction, plan))


def fetch_slice(
    transaction: Transaction, query: WorkloadQuery, window: PageRequest, now: int, project: Projection[T]
) -> tuple[list[T], bool]:
    """One page, and whether another one follows; nothing is counted."""
    plan = plan_query(transaction, query, now)
    uids = Paginator(transaction, query.sort).page(plan, window.offset, window.limit + 1)
    return project(transaction, uids[: window.limit]), len(uids) > window.limit


def count(transaction: Transaction, query: WorkloadQuery, now: int) -> int:
    return count_matches(transaction, plan_query(transaction, query, now))
