"""Rewrites inserts of many rows into statements of several rows each.

Python releases the GIL at every statement step. With busy threads, waiting to get it back costs more than inserting
the row, so fewer and larger statements are faster.
"""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from msgspec import Struct

from stoker.store.db.base import Params

BATCH_SIZES = (256, 64, 8)
NAMED_PARAM = re.compile(r"(?<!:):([a-z_]\w*)")
INSERT_VALUES = re.compile(r"(?s)\s*INSERT INTO .*?\bVALUES\s*(?=\()")


class InsertTemplate(Struct, frozen=True):
    """An insert split around its row of values; `row_values` returns the values of a row in order."""

    head: str
    row: str
    tail: str
    row_values: Callable[[Params], tuple[object, ...]]


class InsertBatch(Struct, frozen=True):
    """A statement and the values of all its rows."""

    sql: str
    values: Sequence[object]


def batch_inserts(sql: str, rows: Sequence[Params]) -> tuple[list[InsertBatch], Sequence[Params]]:
    """The multi-row statements, and the remaining rows."""
    if len(rows) < BATCH_SIZES[-1] or (insert := _parse_insert(sql)) is None:
        return [], rows
    batches, position = [], 0
    for size, count in _batch_counts(len(rows)):
        for _ in range(count):
            batch = rows[position : position + size]
            batches.append(InsertBatch(_batched_sql(sql, size), [*chain.from_iterable(map(insert.row_values, batch))]))
            position += size
    return batches, rows[position:]


def _batch_counts(rows: int) -> Iterator[tuple[int, int]]:
    for size in BATCH_SIZES:
        count, rows = divmod(rows, size)
        yield size, count


@functools.cache
def _batched_sql(sql: str, size: int) -> str:
    insert = _parse_insert(sql)
    return f"{insert.head}{', '.join([insert.row] * size)}{insert.tail}" if insert else sql


@functools.cache
def _parse_insert(sql: str) -> InsertTemplate | None:
    """None unless the statement inserts one row, has no other parameters and no literals that may look like some."""
    found = INSERT_VALUES.match(sql)
    if found is None:
        return None
    end = _closing_parenthesis(sql, found.end())
    row, tail = sql[found.end() : end], sql[end:]
    names = NAMED_PARAM.findall(row)
    if len(names) < 2 or "'" in row or NAMED_PARAM.search(tail) or NAMED_PARAM.search(found[0]) or "RETURNING" in tail:
        return None
    return InsertTemplate(found[0], NAMED_PARAM.sub("?", row), tail, itemgetter(*names))


def _closing_parenthesis(sql: str, start: int) -> int:
    """The index after the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[index], 0)
        if depth == 0:
            return index + 1
    return len(sql)
