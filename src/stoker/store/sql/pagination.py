"""Pages of rows: how filters become clauses, and what a page is."""

from collections.abc import Callable
from typing import TypeVar

from stoker.domain.listing import Listing, Window
from stoker.store.base import Params, Row, Transaction

T = TypeVar("T")


def where(*clauses: str | None) -> str:
    """The clauses that are given, joined; nothing when there are none."""
    given = [clause for clause in clauses if clause]
    return "WHERE " + "\n  AND ".join(given) if given else ""


def substring(text: str) -> str:
    """The LIKE pattern (with ESCAPE '!') of a case-folded substring, in which % and _ are ordinary."""
    return f"%{escaped(text)}%"


def escaped(text: str) -> str:
    """Case-folded text inside a LIKE pattern that says ESCAPE '!'."""
    return text.casefold().replace("!", "!!").replace("%", "!%").replace("_", "!_")


def page(
    transaction: Transaction,
    build: Callable[[Row], T],
    *,
    select: str,
    source: str,
    condition: str,
    order: str,
    params: Params,
    window: Window,
) -> Listing[T]:
    """One page in a stated order, with the total of the same condition."""
    counted = transaction.one(f"SELECT COUNT(*) {source} {condition}", params)
    rows = transaction.all(
        f"{select} {source} {condition} ORDER BY {order} LIMIT :limit OFFSET :offset",
        {**params, "limit": window.limit, "offset": window.offset},
    )
    return Listing([build(row) for row in rows], counted[0] if counted else 0)
