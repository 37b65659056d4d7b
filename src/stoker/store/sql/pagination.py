"""WHERE clauses, LIKE patterns and pages of rows."""

from collections.abc import Callable
from typing import TypeVar

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.store.db.base import Params, Row, Transaction

T = TypeVar("T")


def where_clause(*clauses: str | None) -> str:
    """The clauses that are not None, joined by AND; empty if there are none."""
    given = [clause for clause in clauses if clause]
    return "WHERE " + "\n  AND ".join(given) if given else ""


def like_substring(text: str) -> str:
    """The LIKE pattern (with ESCAPE '!') that matches a case-folded substring literally."""
    return f"%{escape_like(text)}%"


def escape_like(text: str) -> str:
    """Case-fold text and escape it for a LIKE pattern with ESCAPE '!'."""
    return text.casefold().replace("!", "!!").replace("%", "!%").replace("_", "!_")


def fetch_page(
    transaction: Transaction,
    build: Callable[[Row], T],
    *,
    select: str,
    source: str,
    condition: str,
    order: str,
    params: Params,
    page: PageRequest,
) -> PageResult[T]:
    """One page in the given order, with the total number of rows that match the condition."""
    counted = transaction.fetch_one(f"SELECT COUNT(*) {source} {condition}", params)
    rows = transaction.fetch_all(
        f"{select} {source} {condition} ORDER BY {order} LIMIT :limit OFFSET :offset",
        {**params, "limit": page.limit, "offset": page.offset},
    )
    return PageResult([build(row) for row in rows], counted[0] if counted else 0)
