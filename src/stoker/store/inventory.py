"""Workloads by anything that is known of them, at any number of them.

Fields with few different values are judged on the counts that are kept of them, so that it is known before how many
workloads are meant. Few are gathered and sorted. Of many, the index of the order is walked until the page is full; an
order that no index has is walked value by value. The uid is the last key of every order.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct, structs

from stoker.domain.inventory import Field, InventoryQuery
from stoker.domain.listing import Window
from stoker.store.base import Transaction
from stoker.store.inventory_filters import (
    ALIKE,
    ALLOCATED,
    COLUMNS,
    GONE,
    IDLE,
    LEAVING,
    LIVE,
    QUEUED,
    RAN,
    SAME,
    TIME_COLUMNS,
    WAITED,
    Clause,
    Values,
    counted,
    one_of,
    other,
    values_of,
)
from stoker.store.inventory_search import search_clause, search_uids

GATHERED = 12_000
"""So many workloads are looked at one by one and sorted, whatever the order is."""
SIZES = (64, 512, 4096, 30_000)
"""How many uids a statement has: filled up to the next size, so that there are few different statements."""
HOLDERS = "workload_use CROSS JOIN workload"
HELD = "workload.uid = workload_use.workload_uid"
UID = "workload.uid"
NULLABLE = ("workload.ended_at", "workload.deleted_at", "CASE")


class Asked(Struct, frozen=True):
    """A query as clauses. Those in `counts` hold for the counts as well."""

    deleted: bool
    counts: tuple[Clause, ...]
    others: tuple[Clause, ...]
    search: str
    params: dict[str, object]

    @property
    def hidden(self) -> str:
        return "hidden = 2" if self.deleted else "hidden < 2"

    @property
    def only_counts(self) -> bool:
        return not self.others

    def with_values(self, column: str, values: Sequence[object], tag: str) -> "Asked":
        clause = one_of(column, values, tag)
        return structs.replace(self, counts=(*self.counts, clause), params={**self.params, **clause.params})


class Part(Struct, frozen=True):
    """Workloads from somewhere, by a key."""

    source: str
    condition: str
    key: str


def ask(transaction: Transaction, query: InventoryQuery, now: int) -> Asked:
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
    params: dict[str, object] = {"now": now}
    for clause in (*counts, *others):
        params |= clause.params
    return Asked(query.deleted, tuple(counts), tuple(others), query.search, params)


def count(transaction: Transaction, query: InventoryQuery, now: int) -> int:
    return _count(transaction, ask(transaction, query, now))


def page(transaction: Transaction, query: InventoryQuery, window: Window, now: int) -> tuple[list[str], bool]:
    """The uids of one page in order, and whether there are more."""
    asked = ask(transaction, query, now)
    found = _Page(transaction, query.descending).of(asked, query.sort, window.offset, window.limit + 1)
    return found[: window.limit], len(found) > window.limit


class _Page:
    def __init__(self, transaction: Transaction, descending: bool) -> None:
        self._transaction = transaction
        self._direction = "DESC" if descending else "ASC"

    def of(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        transaction = self._transaction
        total = _counted(transaction, asked)
        if offset >= total:
            return []
        few = _few(_everything(transaction, asked), offset + limit)
        source = _gathered(transaction, asked, total, few, sort)
        if source is not None:
            key = self._key(sort)
            parts = [Part(source.source, f"{source.condition} AND {_where(asked.counts, asked.others)}", key)]
            return self._run(asked, source.asked, self._with_leaving(asked, parts, key), offset, limit)
        if sort in COLUMNS:
            return self._by_value(asked, sort, offset, limit)
        if sort in {Field.ALLOCATED, Field.IDLE, Field.IDLE_WHOLE}:
            return self._by_use(asked, sort, offset, limit)
        return self._walk(asked, sort, offset, limit)

    def _walk(self, asked: Asked, sort: Field | None, offset: int, limit: int) -> list[str]:
        key = self._key(sort)
        base = GONE if asked.deleted else LIVE
        condition = f"{base} AND {_aside(asked, sort)}"
        match sort:
            case Field.RUNNING:
                split = (("workload.running_since IS NULL", "workload.ran_ms"), ("workload.running_since > 0", RAN))
            case Field.PENDING:
                split = ((QUEUED.replace("IN", "NOT IN"), "workload.waited_ms"), (QUEUED, WAITED))
            case _:
                split = (("1 = 1", key),)
        parts = [Part("workload", f"{condition} AND {only}", by) for only, by in split]
        return self._run(asked, {}, self._with_leaving(asked, parts, key), offset, limit)

    def _by_value(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Value after value, each by uid; values that a page lies behind are only counted."""
        found: list[str] = []
        for number, (keys, workloads) in enumerate(self._values(asked, sort)):
            if asked.only_counts and offset >= workloads:
                offset -= workloads
                continue
            group = asked.with_values(COLUMNS[sort], keys, f"group_{number}")
            found_here = self._group(group, offset, limit - len(found))
            offset = 0 if found_here or not offset else max(0, offset - _count(self._transaction, group))
            found += found_here
            if len(found) >= limit:
                break
        return found

    def _group(self, asked: Asked, offset: int, limit: int) -> list[str]:
        total = _counted(self._transaction, asked)
        few = _few(_everything(self._transaction, asked), offset + limit)
        source = _gathered(self._transaction, asked, total, few, None)
        if source is None:
            return self._walk(asked, None, offset, limit)
        key = self._key(None)
        parts = [Part(source.source, f"{source.condition} AND {_where(asked.counts, asked.others)}", key)]
        return self._run(asked, source.asked, self._with_leaving(asked, parts, key), offset, limit)

    def _by_use(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Most hold nothing: they are one group, by uid, and those that hold something are the other."""
        key = ALLOCATED if sort is Field.ALLOCATED else IDLE
        base = GONE if asked.deleted else LIVE
        everything = _where(asked.counts, asked.others)
        using = [Part(HOLDERS, f"{HELD} AND {base} AND {key} > 0 AND {everything}", key)]
        without = structs.replace(asked, others=(*asked.others, Clause(f"{key} = 0")))
        groups = [
            lambda first, most: self._walk(without, None, first, most),
            lambda first, most: self._run(asked, {}, self._with_leaving(asked, using, key, f"{key} > 0"), first, most),
        ]
        sizes = [lambda: _count(self._transaction, without), lambda: 0]
        if self._direction == "DESC":
            with_use = structs.replace(asked, others=(*asked.others, Clause(f"{key} > 0", narrow=True)))
            groups.reverse()
            sizes = [lambda: _count(self._transaction, with_use), lambda: 0]
        found = groups[0](offset, limit)
        if len(found) < limit:
            first = 0 if found or not offset else max(0, offset - sizes[0]())
            found += groups[1](first, limit - len(found))
        return found

    def _values(self, asked: Asked, sort: Field) -> Iterator[tuple[list[object], int]]:
        """The values of a field that there are, in order, with what their column is and how many have them."""
        column = COLUMNS[sort]
        rows = self._transaction.all(
            f"""
            SELECT {column}, SUM(workloads)
            FROM workload_count
            WHERE {asked.hidden} AND {_on_counts(asked.counts)}
            GROUP BY {column}
            HAVING SUM(workloads) > 0
            """,
            asked.params,
        )
        values = values_of(self._transaction, sort)
        for keys in _in_order(values, self._direction == "DESC"):
            workloads = sum(int(row[1]) for row in rows if row[0] in keys)
            if workloads:
                yield keys, workloads

    def _key(self, sort: Field | None) -> str:
        match sort:
            case None | Field.GUARANTEED | Field.APPLICATION | Field.APPLICATION_ID:
                return UID
            case Field.NAME:
                return "workload.name"
            case Field.RUNNING:
                return RAN
            case Field.PENDING:
                return WAITED
            case Field.ALLOCATED:
                return ALLOCATED
            case Field.IDLE | Field.IDLE_WHOLE:
                return IDLE
            case Field.KIND | Field.PHASE | Field.CLUSTER | Field.USER | Field.POOLS | Field.PRIORITY:
                return f"workload.{COLUMNS[sort]}"
            case _ if sort in TIME_COLUMNS:
                return f"workload.{TIME_COLUMNS[sort]}"
        return self._ranked(sort)

    def _ranked(self, sort: Field) -> str:
        """The place of a value that is made from a column."""
        known: Values = {key: value for key, value in values_of(self._transaction, sort).items() if value is not None}
        ranks = _in_order(known, descending=False)
        cases = [f"WHEN {_literal(key)} THEN {rank}" for rank, keys in enumerate(ranks) for key in keys]
        return f"CASE workload.{COLUMNS[sort]} {' '.join(cases)} END" if cases else "0"

    def _with_leaving(self, asked: Asked, parts: list[Part], key: str, only: str = "1 = 1") -> list[Part]:
        """Deleted workloads are shown until their pods are gone; there are never many."""
        if asked.deleted or not _leaving(self._transaction):
            return parts
        return [*parts, Part("workload", f"{LEAVING} AND {only} AND {_aside(asked, None)}", key)]

    def _run(self, asked: Asked, more: dict[str, object], parts: Sequence[Part], offset: int, limit: int) -> list[str]:
        params = {**asked.params, **more, "limit": limit, "offset": offset, "most": offset + limit}
        if len(parts) == 1:
            rows = self._transaction.all(f"{self._select(parts[0])} LIMIT :limit OFFSET :offset", params)
            return [row[0] for row in rows]
        each = [f"SELECT * FROM ({self._select(part)} LIMIT :most) AS part_{n}" for n, part in enumerate(parts)]
        rows = self._transaction.all(
            f"""
            SELECT uid, place FROM ({" UNION ALL ".join(each)}) AS together
            ORDER BY place {self._direction} NULLS LAST, uid {self._direction}
            LIMIT :limit OFFSET :offset
            """,
            params,
        )
        return [row[0] for row in rows]

    def _select(self, part: Part) -> str:
        nulls = "NULLS LAST" if part.key.startswith(NULLABLE) else ""
        order = f"{part.key} {self._direction} {nulls}, " if part.key != UID else ""
        return f"""
        SELECT workload.uid AS uid, {part.key} AS place
        FROM {part.source}
        WHERE {part.condition}
        ORDER BY {order}workload.uid {self._direction}
        """


class _Source(Struct, frozen=True):
    source: str
    condition: str
    asked: dict[str, object]


def _gathered(transaction: Transaction, asked: Asked, total: int, few: int, sort: Field | None) -> _Source | None:
    """Where the few workloads that can be meant are found; None when they are many."""
    base = GONE if asked.deleted else LIVE
    if total <= few and _everything(transaction, asked) <= few:
        return _Source("workload", base, {})
    if not asked.deleted and total <= few and asked.counts:
        condition = f"hidden = 0 AND {_on_counts(asked.counts)}"
        return _Source(ALIKE.format(condition=condition), f"{SAME} AND {base}", {})
    uids = _narrow(transaction, asked, few, sort)
    if uids is None:
        return None
    named: dict[str, object] = {f"uid_{number}": uid for number, uid in enumerate(_filled(uids))}
    return _Source("workload", f"workload.uid IN ({', '.join(f':{name}' for name in named)}) AND {base}", named)


def _narrow(transaction: Transaction, asked: Asked, few: int, sort: Field | None) -> list[str] | None:
    """The uids of everything that one of the clauses leaves, if it leaves few."""
    base = GONE if asked.deleted else LIVE
    params = {**asked.params, "few": few + 1}
    sorted_by = TIME_COLUMNS.get(sort, "name" if sort is Field.NAME else "") if sort else ""
    narrow = [clause for clause in asked.others if clause.narrow]
    for column in dict.fromkeys(clause.column for clause in narrow):
        if column and column == sorted_by:
            continue
        clauses = " AND ".join(clause.on() for clause in narrow if clause.column == column)
        source, joined = (HOLDERS, HELD) if not column else ("workload", "1 = 1")
        rows = transaction.all(
            f"SELECT workload.uid FROM {source} WHERE {joined} AND {base} AND {clauses} LIMIT :few", params
        )
        if len(rows) <= few:
            return [row[0] for row in rows]
    if asked.search:
        return search_uids(transaction, asked.search, few, deleted=asked.deleted)
    return None


def _count(transaction: Transaction, asked: Asked) -> int:
    if asked.only_counts:
        return _counted(transaction, asked)
    few = _few(_everything(transaction, asked), 1)
    source = _gathered(transaction, asked, _counted(transaction, asked), few, None)
    base = GONE if asked.deleted else LIVE
    source = source or _Source("workload", base, {})
    everything = _where(asked.counts, asked.others)
    params = {**asked.params, **source.asked}
    number = _number(
        transaction, f"SELECT COUNT(*) FROM {source.source} WHERE {source.condition} AND {everything}", params
    )
    if not asked.deleted and _leaving(transaction):
        number += _number(transaction, f"SELECT COUNT(*) FROM workload WHERE {LEAVING} AND {everything}", params)
    return number


def _counted(transaction: Transaction, asked: Asked) -> int:
    condition = f"{asked.hidden} AND {_on_counts(asked.counts)}"
    return _number(
        transaction, f"SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {condition}", asked.params
    )


def _everything(transaction: Transaction, asked: Asked) -> int:
    return _number(transaction, f"SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {asked.hidden}", {})


def _leaving(transaction: Transaction) -> bool:
    return _number(transaction, "SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE hidden = 1", {}) > 0


def _few(everything: int, wanted: int) -> int:
    return min(SIZES[-1], max(GATHERED, math.isqrt(everything * wanted)))


def _where(*clauses: Sequence[Clause]) -> str:
    return " AND ".join(clause.on() for each in clauses for clause in each) or "1 = 1"


def _aside(asked: Asked, sort: Field | None) -> str:
    """Every clause, none of them in the way of the index of the order."""
    ordered = TIME_COLUMNS.get(sort, "name" if sort is Field.NAME else "") if sort else ""
    clauses = [clause.on() if clause.column == ordered else clause.aside() for clause in (*asked.counts, *asked.others)]
    return " AND ".join(clauses) or "1 = 1"


def _on_counts(clauses: Sequence[Clause]) -> str:
    return " AND ".join(clause.on("workload_count") for clause in clauses) or "1 = 1"


def _in_order(values: Values, descending: bool) -> list[list[object]]:
    """The keys of equal values together, by value; those without one last."""
    known: dict[Any, list[object]] = {}
    for key, value in values.items():
        known.setdefault(",".join(value) if isinstance(value, tuple) else value, []).append(key)
    missing = known.pop(None, [])
    ordered = [known[value] for value in sorted(known, reverse=descending)]
    return [*ordered, *([missing] if missing else [])]


def _literal(key: object) -> str:
    return str(key) if isinstance(key, int) else f"'{key}'"


def _filled(uids: Sequence[str]) -> list[str]:
    size = next(size for size in SIZES if size >= len(uids))
    return [*uids, *([uids[-1] if uids else ""] * (size - len(uids)))]


def _number(transaction: Transaction, sql: str, params: dict[str, object]) -> int:
    row = transaction.one(sql, params)
    return int(row[0]) if row else 0
