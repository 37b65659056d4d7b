"""Workloads by anything that is known of them, at any number of them.

Fields with few different values are judged on the counts that are kept of them, so that it is known before how many
workloads are meant. Few are gathered and sorted. Of many, the index of the order is walked until the page is full; an
order that no index has is walked value by value. The uid is the last key of every order, and where no index says
otherwise the time of creation goes before it.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence

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
    NOTHING,
    QUEUED,
    RAN,
    SAME,
    TIME_COLUMNS,
    WAITED,
    Clause,
    Values,
    counted,
    in_order,
    one_of,
    other,
    past,
    values_of,
)
from stoker.store.inventory_search import search_clause, search_uids

GATHERED = 12_000
"""So many workloads are looked at one by one and sorted, whatever the order is."""
MOST_GATHERED = 30_000
NAMED = 2_048
"""So many are named by their uids."""
SIZES = (16, 128, NAMED)
"""How many uids a statement has: filled up to the next size, so that there are few different statements."""
HOLDERS = "workload_use CROSS JOIN workload"
HELD = "workload.uid = workload_use.workload_uid"
UID, CREATED = "workload.uid", "workload.submitted_at"
NULLABLE = re.compile(r"\(?workload\.(ended_at|deleted_at)|CASE")
COLUMN = re.compile(r"workload\.(\w+)")
BY_USE = frozenset({Field.ALLOCATED, Field.IDLE, Field.IDLE_WHOLE})
AS_THEY_ARE = frozenset({Field.KIND, Field.PHASE, Field.CLUSTER, Field.USER, Field.POOLS, Field.PRIORITY})
"""Fields whose values are those of their columns."""
IN_TIME = ("phase", "kind", "workspace_id")
"""Columns with an index in which the workloads of one value are in the order of creation."""
COUNTED = "SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {condition}"
SIZE = "SELECT hidden, SUM(workloads) FROM workload_count GROUP BY hidden"


class Asked(Struct, frozen=True):
    """A query as clauses. Those in `counts` hold for the counts as well. `everything` is how many there are without
    any clause, and `leaving` how many of them are on their way out."""

    deleted: bool
    counts: tuple[Clause, ...]
    others: tuple[Clause, ...]
    search: str
    params: dict[str, object]
    everything: int
    leaving: int

    @property
    def hidden(self) -> str:
        return "hidden = 2" if self.deleted else "hidden < 2"

    @property
    def base(self) -> str:
        return GONE if self.deleted else LIVE

    def with_values(self, column: str, values: Sequence[object], tag: str) -> "Asked":
        clause = one_of(column, values, tag)
        return structs.replace(self, counts=(*self.counts, clause), params={**self.params, **clause.params})


class Source(Struct, frozen=True):
    """Where few workloads are found."""

    source: str
    condition: str
    params: dict[str, object] = {}


class Part(Struct, frozen=True):
    """Workloads from somewhere, by a key and then another."""

    source: str
    condition: str
    key: str
    tie: str


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
    sizes = {hidden: int(number) for hidden, number in transaction.all(SIZE)}
    everything = sizes.get(2, 0) if query.deleted else sizes.get(0, 0) + sizes.get(1, 0)
    leaving = 0 if query.deleted else sizes.get(1, 0)
    return Asked(query.deleted, tuple(counts), tuple(others), query.search, params, everything, leaving)


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
        self._descending = descending
        self._direction = "DESC" if descending else "ASC"

    def of(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        if sort in NOTHING:
            sort = Field.CREATED
        total = _counted(self._transaction, asked)
        if offset >= total:
            return []
        if sort is Field.CREATED and _in_time(asked):
            return self._walk(asked, sort, offset, limit)
        source = _gathered(self._transaction, asked, total, _few(asked.everything, offset + limit), sort)
        if source is not None:
            return self._gather(asked, source, self._key(sort), self._tie(sort), offset, limit)
        if sort in COLUMNS:
            return self._by_value(asked, sort, offset, limit)
        if sort in BY_USE:
            return self._by_use(asked, sort, offset, limit)
        return self._walk(asked, sort, offset, limit)

    def _gather(self, asked: Asked, source: Source, key: str, tie: str, offset: int, limit: int) -> list[str]:
        column = COLUMN.fullmatch(key)  # what is few is sorted, and no index of the order is walked for it
        parts = [
            Part(source.source, f"{source.condition} AND {_where(asked)}", past(column[1]) if column else key, tie)
        ]
        return self._run(asked, source.params, self._with_leaving(asked, parts), offset, limit)

    def _walk(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        condition = f"{asked.base} AND {_aside(asked, sort)}"
        match sort:
            case Field.RUNNING:
                split = (("workload.running_since IS NULL", "workload.ran_ms"), ("workload.running_since > 0", RAN))
            case Field.PENDING:
                split = ((QUEUED.replace("IN", "NOT IN"), "workload.waited_ms"), (QUEUED, WAITED))
            case _:
                split = (("1 = 1", self._key(sort)),)
        tie = self._tie(sort)
        parts = [Part("workload", f"{condition} AND {only}", by, tie) for only, by in split]
        return self._run(asked, {}, self._with_leaving(asked, parts, self._key(sort)), offset, limit)

    def _by_value(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Value after value, each by time; values that a page lies behind are only counted."""
        found: list[str] = []
        for number, (keys, workloads) in enumerate(self._values(asked, sort)):
            if not asked.others and offset >= workloads:
                offset -= workloads
                continue
            group = asked.with_values(COLUMNS[sort], keys, f"group_{number}")
            found_here = self.of(group, Field.CREATED, offset, limit - len(found))
            offset = 0 if found_here or not offset else max(0, offset - _count(self._transaction, group))
            found += found_here
            if len(found) >= limit:
                break
        return found

    def _by_use(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Most hold nothing: they are one group, by time, and those that hold something are the other."""
        key = self._key(sort)
        without = structs.replace(asked, others=(*asked.others, Clause(f"{key} = 0")))
        using = structs.replace(asked, others=(*asked.others, Clause(f"{key} > 0", narrow=True)))
        holders = Source(HOLDERS, f"{HELD} AND {asked.base}")
        groups: list[tuple[Asked, Callable[[int, int], list[str]]]] = [
            (without, lambda first, most: self._walk(without, Field.CREATED, first, most)),
            (using, lambda first, most: self._gather(using, holders, key, CREATED, first, most)),
        ]
        (before, first_group), (_, last_group) = reversed(groups) if self._descending else groups
        found = first_group(offset, limit)
        if len(found) < limit:
            skipped = 0 if found or not offset else max(0, offset - _count(self._transaction, before))
            found += last_group(skipped, limit - len(found))
        return found

    def _values(self, asked: Asked, sort: Field) -> Iterator[tuple[list[object], int]]:
        """The values of a field that there are, in order, with what their column is and how many have them."""
        column = COLUMNS[sort]
        rows = self._transaction.all(
            f"""
            SELECT {column}, SUM(workloads)
            FROM workload_count
            WHERE {asked.hidden} AND {_on_counts(asked)}
            GROUP BY {column}
            HAVING SUM(workloads) > 0
            """,
            asked.params,
        )
        numbers = {row[0]: int(row[1]) for row in rows}
        values: Values = {key: key for key in numbers} if sort in AS_THEY_ARE else values_of(self._transaction, sort)
        for keys in in_order(values, descending=self._descending):
            if workloads := sum(numbers.get(key, 0) for key in keys):
                yield keys, workloads

    def _key(self, sort: Field) -> str:
        if sort in TIME_COLUMNS:
            return f"workload.{TIME_COLUMNS[sort]}"
        if sort in AS_THEY_ARE:
            return f"workload.{COLUMNS[sort]}"
        match sort:
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
            case _:
                return self._ranked(sort)

    def _tie(self, sort: Field) -> str:
        return CREATED if sort in COLUMNS or sort in BY_USE else ""

    def _ranked(self, sort: Field) -> str:
        """The place of a value that is made from a column."""
        known: Values = {key: value for key, value in values_of(self._transaction, sort).items() if value is not None}
        cases = [
            f"WHEN {_literal(key)} THEN {rank}"
            for rank, keys in enumerate(in_order(known, descending=False))
            for key in keys
        ]
        return f"CASE workload.{COLUMNS[sort]} {' '.join(cases)} END" if cases else CREATED

    def _with_leaving(self, asked: Asked, parts: list[Part], key: str = "") -> list[Part]:
        """Deleted workloads are shown until their pods are gone; there are never many."""
        if not asked.leaving:
            return parts
        return [
            *parts,
            Part("workload", f"{LEAVING} AND {_where(asked, aside=True)}", key or parts[0].key, parts[0].tie),
        ]

    def _run(self, asked: Asked, more: dict[str, object], parts: Sequence[Part], offset: int, limit: int) -> list[str]:
        params = {**asked.params, **more, "limit": limit, "offset": offset, "most": offset + limit}
        if len(parts) == 1:
            rows = self._transaction.all(f"{self._select(parts[0])} LIMIT :limit OFFSET :offset", params)
            return [row[0] for row in rows]
        each = [f"SELECT * FROM ({self._select(part)} LIMIT :most) AS part_{n}" for n, part in enumerate(parts)]
        way = self._direction
        rows = self._transaction.all(
            f"""
            SELECT uid, place, tie FROM ({" UNION ALL ".join(each)}) AS together
            ORDER BY place {way} NULLS LAST, tie {way}, uid {way}
            LIMIT :limit OFFSET :offset
            """,
            params,
        )
        return [row[0] for row in rows]

    def _select(self, part: Part) -> str:
        nulls = "NULLS LAST" if NULLABLE.match(part.key) else ""
        keys = [f"{part.key} {self._direction} {nulls}", *([f"{part.tie} {self._direction}"] if part.tie else [])]
        return f"""
        SELECT workload.uid AS uid, {part.key} AS place, {part.tie or "0"} AS tie
        FROM {part.source}
        WHERE {part.condition}
        ORDER BY {", ".join(keys)}, workload.uid {self._direction}
        """


def _gathered(transaction: Transaction, asked: Asked, total: int, few: int, sort: Field | None) -> Source | None:
    """Where the few workloads that can be meant are found; None when they are many."""
    if asked.everything <= few:
        return Source("workload", asked.base)
    if not asked.deleted and total <= few and asked.counts:
        condition = f"hidden = 0 AND {_on_counts(asked)}"
        return Source(ALIKE.format(condition=condition), f"{SAME} AND {asked.base}")
    return _narrow(transaction, asked, few, sort)


def _narrow(transaction: Transaction, asked: Asked, few: int, sort: Field | None) -> Source | None:
    """Everything that one of the clauses leaves, if it leaves few."""
    params = {**asked.params, "named": NAMED + 1}
    walked = _walked_column(sort)
    narrow = [clause for clause in asked.others if clause.narrow and not clause.scan]
    for column in dict.fromkeys(clause.column for clause in narrow):
        if column and column == walked:
            continue
        clauses = " AND ".join(clause.on() for clause in narrow if clause.column == column)
        source, joined = (HOLDERS, HELD) if not column else ("workload", "1 = 1")
        found = f"SELECT workload.uid FROM {source} WHERE {joined} AND {asked.base} AND {clauses}"
        # What lies close together in time lies close together on the disk, and costs half as much.
        most = 2 * few if column in TIME_COLUMNS.values() else few
        if len(transaction.all(f"{found} LIMIT :few", {**params, "few": most + 1})) <= most:
            few_only: dict[str, object] = {"found_most": most}
            found = f"({found} LIMIT :found_most) AS found CROSS JOIN workload"
            return Source(found, f"workload.uid = found.uid AND {asked.base}", few_only)
    if few < NAMED:
        return None
    for clause in asked.others:
        if clause.scan:
            found = f"SELECT uid FROM workload WHERE {asked.base} AND {clause.scan} ORDER BY folded_name LIMIT :named"
            if len(rows := transaction.all(found, params)) <= NAMED:
                return _named([row[0] for row in rows], asked)
    if asked.search and (uids := search_uids(transaction, asked.search, NAMED, deleted=asked.deleted)) is not None:
        return _named(uids, asked)
    return None


def _named(uids: Sequence[str], asked: Asked) -> Source:
    size = next(size for size in SIZES if size >= len(uids))
    filled = [*uids, *([uids[-1] if uids else ""] * (size - len(uids)))]
    params: dict[str, object] = {f"uid_{number}": uid for number, uid in enumerate(filled)}
    return Source("workload", f"workload.uid IN ({', '.join(f':{name}' for name in params)}) AND {asked.base}", params)


def _count(transaction: Transaction, asked: Asked) -> int:
    total = _counted(transaction, asked)
    if not asked.others or not total:
        return total
    source = _gathered(transaction, asked, total, _few(asked.everything, 1), None) or Source("workload", asked.base)
    params = {**asked.params, **source.params}
    everything = _where(asked)
    number = _number(
        transaction, f"SELECT COUNT(*) FROM {source.source} WHERE {source.condition} AND {everything}", params
    )
    if asked.leaving:
        number += _number(transaction, f"SELECT COUNT(*) FROM workload WHERE {LEAVING} AND {everything}", params)
    return number


def _counted(transaction: Transaction, asked: Asked) -> int:
    if not asked.counts:
        return asked.everything
    condition = f"{asked.hidden} AND {_on_counts(asked)}"
    return _number(transaction, COUNTED.format(condition=condition), asked.params)


def _few(everything: int, wanted: int) -> int:
    return min(MOST_GATHERED, max(GATHERED, math.isqrt(everything * wanted)))


def _in_time(asked: Asked) -> Clause | None:
    """The clause on one value whose workloads an index has in the order of creation."""
    if asked.deleted:
        return None
    return next((clause for clause in asked.counts if clause.column in IN_TIME and len(clause.params) == 1), None)


def _walked_column(sort: Field | None) -> str:
    return "name" if sort is Field.NAME else TIME_COLUMNS.get(sort, "") if sort else ""


def _where(asked: Asked, *, aside: bool = False) -> str:
    clauses = (*asked.counts, *asked.others)
    return " AND ".join(clause.aside() if aside else clause.on() for clause in clauses) or "1 = 1"


def _aside(asked: Asked, sort: Field) -> str:
    """Every clause, none of them in the way of the index of the order."""
    ordered = _walked_column(sort)
    leading = _in_time(asked) if sort is Field.CREATED else None
    clauses = [
        clause.on() if clause is leading or clause.column == ordered else clause.aside()
        for clause in (*asked.counts, *asked.others)
    ]
    return " AND ".join(clauses) or "1 = 1"


def _on_counts(asked: Asked) -> str:
    return " AND ".join(clause.on("workload_count") for clause in asked.counts) or "1 = 1"


def _literal(key: object) -> str:
    return str(key) if isinstance(key, int) else f"'{key}'"


def _number(transaction: Transaction, sql: str, params: dict[str, object]) -> int:
    row = transaction.one(sql, params)
    return int(row[0]) if row else 0
