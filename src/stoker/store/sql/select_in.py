"""Many rows by their keys, in few statements."""

import functools
from collections.abc import Collection, Iterator

from stoker.store.base import NO_PARAMS, Params, Row, Transaction

SIZES = (1, 4, 16, 64, 256)
"""How many keys a statement has: a list is filled up to the next size, so that there are few different statements."""


def by_keys(transaction: Transaction, sql: str, keys: Collection[object], params: Params = NO_PARAMS) -> list[Row]:
    """The rows of a query that says `IN (:keys)`, for all the keys."""
    return [row for bound, chunk in _chunks(keys) for row in transaction.all(_listed(sql, bound), {**params, **chunk})]


def _chunks(keys: Collection[object]) -> Iterator[tuple[int, dict[str, object]]]:
    every = list(keys)
    for first in range(0, len(every), SIZES[-1]):
        chunk = every[first : first + SIZES[-1]]
        size = next(size for size in SIZES if size >= len(chunk))
        chunk += chunk[-1:] * (size - len(chunk))
        yield size, dict(zip(_names(size), chunk, strict=True))


@functools.cache
def _names(size: int) -> tuple[str, ...]:
    return tuple(f"key_{number}" for number in range(size))


@functools.cache
def _listed(sql: str, size: int) -> str:
    return sql.replace(":keys", ", ".join(f":{name}" for name in _names(size)))
