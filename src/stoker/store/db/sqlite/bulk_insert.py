"""Many rows in few steps. At every step of a statement Python lets other threads run, and where they are busy the wait
for the next turn costs more than the row: so rows are inserted several in a statement."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from msgspec import Struct

from stoker.store.base import Params

SIZES = (256, 64, 8)
PARAM = re.compile(r"(?<!:):([a-z_]\w*)")
INSERT = re.compile(r"(?s)\s*INSERT INTO .*?\bVALUES\s*(?=\()")


class Insert(Struct, frozen=True):
    """A statement cut at its row; `values` are those of a row, in order."""

    head: str
    row: str
    tail: str
    values: Callable[[Params], tuple[object, ...]]


class Step(Struct, frozen=True):
    """A statement and the values of all its rows."""

    sql: str
    values: Sequence[object]


def in_steps(sql: str, rows: Sequence[Params]) -> tuple[list[Step], Sequence[Params]]:
    """Statements of several rows, and the rows that are left."""
    if len(rows) < SIZES[-1] or (insert := _insert(sql)) is None:
        return [], rows
    steps, place = [], 0
    for size, many in _sizes(len(rows)):
        for _ in range(many):
            some = rows[place : place + size]
            steps.append(Step(_of(sql, size), [*chain.from_iterable(map(insert.values, some))]))
            place += size
    return steps, rows[place:]


def _sizes(rows: int) -> Iterator[tuple[int, int]]:
    for size in SIZES:
        many, rows = divmod(rows, size)
        yield size, many


@functools.cache
def _of(sql: str, size: int) -> str:
    insert = _insert(sql)
    return f"{insert.head}{', '.join([insert.row] * size)}{insert.tail}" if insert else sql


@functools.cache
def _insert(sql: str) -> Insert | None:
    """None if it is not an insert of one row, takes parameters elsewhere, or has texts that might look like some."""
    found = INSERT.match(sql)
    if found is None:
        return None
    end = _closing(sql, found.end())
    row, tail = sql[found.end() : end], sql[end:]
    names = PARAM.findall(row)
    if len(names) < 2 or "'" in row or PARAM.search(tail) or PARAM.search(found[0]) or "RETURNING" in tail:
        return None
    return Insert(found[0], PARAM.sub("?", row), tail, itemgetter(*names))


def _closing(sql: str, start: int) -> int:
    """Behind the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if depth == 0:
            return place + 1
    return len(sql)
