"""Queries with an IN list of any length, in few distinct statements."""

import functools
from collections.abc import Collection, Iterator

from stoker.store.db.base import NO_PARAMS, Params, Row, Transaction

IN_LIST_SIZES = (1, 4, 16, 64, 256)
"""A list is padded to the next size, so that the statement cache stays small."""


def select_in(transaction: Transaction, sql: str, keys: Collection[object], params: Params = NO_PARAMS) -> list[Row]:
    """The rows of a query with `IN (:keys)`, for all keys."""
    return [
        row
        for size, chunk in _chunks(keys)
        for row in transaction.fetch_all(_expand_keys(sql, size), {**params, **chunk})
    ]


def _chunks(keys: Collection[object]) -> Iterator[tuple[int, dict[str, object]]]:
    all_keys = list(keys)
    for first in range(0, len(all_keys), IN_LIST_SIZES[-1]):
        chunk = all_keys[first : first + IN_LIST_SIZES[-1]]
        size = next(size for size in IN_LIST_SIZES if size >= len(chunk))
        chunk += chunk[-1:] * (size - len(chunk))
        yield size, dict(zip(_param_names(size), chunk, strict=True))


@functools.cache
def _param_names(size: int) -> tuple[str, ...]:
    return tuple(f"key_{number}" for number in range(size))


@functools.cache
def _expand_keys(sql: str, size: int) -> str:
    return sql.replace(":keys", ", ".join(f":{name}" for name in _param_names(size)))
