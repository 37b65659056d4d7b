"""Pages of workloads in any order, at any number of them.

Few are gathered and sorted. Of many, the index of the order is walked until the page is full; an order that no index
has is walked value by value. The uid is the last key of every order, and where no index says otherwise the time of
creation goes before it.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct, structs

from stoker.domain.inventory import Field
from stoker.store.base import Transaction
from stoker.store.inventory_asked import Asked, Source, count, few_of, gathered, holders
from stoker.store.inventory_filters import (
    ALLOCATED,
    AT_HOME,
    COLUMNS,
    GPUS,
    HOLDS,
    HOMES_OF,
    IDLE,
    IDLES,
    LEAVING,
    NOTHING,
    TIME_COLUMNS,
    TIMES,
    Clause,
    Values,
    in_order,
    past,
    values_of,
)

CREATED = "workload.submitted_at"
COLUMN = re.compile(r"workload\.(\w+)")
BY_USE = frozenset({Field.ALLOCATED, Field.IDLE, Field.IDLE_WHOLE})
AS_THEY_ARE = frozenset({Field.KIND, Field.PHASE, Field.CLUSTER, Field.USER, Field.POOLS, Field.PRIORITY})
"""Fields whose values are those of their columns."""
NULLABLE = frozenset({Field.STARTED, Field.ENDED, Field.DELETED})


class Part(Struct, frozen=True):
    """Workloads from somewhere, by a key and another after it; `order` says the same as an index has it."""

    source: str
    condition: str
    key: str
    tie: str = ""
    order: str = ""


class Pages:
    """`ranks` is the order of the values of the field that is sorted by, where it is not their own."""

    def __init__(self, transaction: Transaction, *, descending: bool, ranks: Values | None = None) -> None:
        self._transaction = transaction
        self._descending = descending
        self._way, self._back = ("DESC", "ASC") if descending else ("ASC", "DESC")
        self._ranks = ranks

    def of(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """The uids of a page."""
        if sort in NOTHING or (sort is Field.GUARANTEED and asked.deleted):
            sort = Field.CREATED
        if offset >= asked.total:
            return []
        indexed = sort not in COLUMNS and sort not in BY_USE
        if (indexed and not asked.counts and not asked.others) or (sort is Field.CREATED and asked.in_time):
            return self._walk(asked, sort, offset, limit)
        source = gathered(self._transaction, asked, few_of(asked.everything, offset + limit), sort)
        if source is not None:
            return self._gather(asked, source, sort, offset, limit)
        if indexed:
            return self._walk(asked, sort, offset, limit)
        by = self._by_value if sort in COLUMNS else self._by_use
        return by(asked, sort, offset, limit)

    def _gather(self, asked: Asked, source: Source, sort: Field, offset: int, limit: int) -> list[str]:
        part = self._sorted(source.source, source.where(asked), sort)
        part = structs.replace(part, key=source.said(part.key))
        return self._run(asked, source.params, self._with_leaving(asked, [part], sort), offset, limit)

    def _walk(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        condition = f"{asked.base} AND {_aside(asked, sort)}"
        key, uid = self._key(sort), f"workload.uid {self._way}"
        if sort in TIMES:
            time = TIMES[sort]
            over, goes_on = _parts(asked, sort)
            parts = [
                Part("workload", f"{condition} AND {over}", time.added_up, "", f"{time.added_up} {self._way}, {uid}"),
                Part("workload", f"{condition} AND {goes_on}", time.now, "", f"{time.began} {self._back}, {uid}"),
            ]
        elif sort is Field.GUARANTEED:  # which few have: only they are in its index
            created, given = (
                f"{CREATED} {self._way}, {uid}",
                " AND ".join((f"{key} IS NOT NULL", *_implied(asked, sort))),
            )
            parts = [
                Part("workload", f"{condition} AND {given}", key, CREATED, f"{key} {self._way}, {created}"),
                Part("workload", f"{condition} AND {key} IS NULL", key, CREATED, created),
            ]
        elif sort in NULLABLE:
            empty = "LAST" if self._descending else "FIRST"  # as an index has it
            order = f"{key} {self._way} NULLS {empty}, {uid}"
            known = " AND ".join((f"{key} IS NOT NULL", *_implied(asked, sort)))
            parts = [
                Part("workload", f"{condition} AND {known}", key, "", order),
                Part("workload", f"{condition} AND {key} IS NULL", key, "", order),
            ]
        else:
            condition = " AND ".join((condition, *_implied(asked, sort)))
            parts = [Part("workload", condition, key, "", f"{key} {self._way}, {uid}")]
        return self._run(asked, {}, self._with_leaving(asked, parts, sort), offset, limit)

    def _by_value(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Value after value, each by time; values that a page lies behind are only counted."""
        found: list[str] = []
        for number, (keys, workloads) in enumerate(self._values(asked, sort)):
            if not asked.others and offset >= workloads:
                offset -= workloads
                continue
            group = asked.with_values(COLUMNS[sort], keys, f"group_{number}", workloads)
            found_here = self.of(group, Field.CREATED, offset, limit - len(found))
            offset = 0 if found_here or not offset else max(0, offset - count(self._transaction, group))
            found += found_here
            if len(found) >= limit:
                break
        return found

    def _by_use(self, asked: Asked, sort: Field, offset: int, limit: int) -> list[str]:
        """Most hold nothing: they are one group, by time, and those that hold something are the other."""
        held = HOLDS if sort is Field.ALLOCATED else IDLES
        without = structs.replace(asked, others=(*asked.others, Clause(f"NOT {held}")))
        using = structs.replace(asked, others=(*asked.others, Clause(held, narrow=True)))
        groups: list[tuple[Asked, Callable[[int, int], list[str]]]] = [
            (without, lambda first, most: self._walk(without, Field.CREATED, first, most)),
            (using, lambda first, most: self._gather(using, holders(asked), sort, first, most)),
        ]
        (before, first_group), (_, last_group) = reversed(groups) if self._descending else groups
        found = first_group(offset, limit)
        if len(found) < limit:
            skipped = 0 if found or not offset else max(0, offset - count(self._transaction, before))
            found += last_group(skipped, limit - len(found))
        return found

    def _values(self, asked: Asked, sort: Field) -> Iterator[tuple[list[object], int]]:
        """The values of a field that there are, in order, with what their column is and how many have them."""
        column = COLUMNS[sort]
        rows = self._transaction.all(
            f"""
            SELECT {column}, SUM(workloads)
            FROM workload_count
            WHERE {asked.on_counts()}
            GROUP BY {column}
            HAVING SUM(workloads) > 0
            """,
            asked.params,
        )
        numbers = {row[0]: int(row[1]) for row in rows}
        own: Values = {key: key for key in numbers}
        values = self._ranks or (own if sort in AS_THEY_ARE else values_of(self._transaction, sort))
        for keys in in_order(values, descending=self._descending):
            if workloads := sum(numbers.get(key, 0) for key in keys):
                yield keys, workloads

    def _key(self, sort: Field) -> str:
        if sort in TIME_COLUMNS:
            return f"workload.{TIME_COLUMNS[sort]}"
        if sort in TIMES:
            return TIMES[sort].now
        if sort in HOMES_OF:
            return HOMES_OF[sort]
        if sort in AS_THEY_ARE and not self._ranks:
            return f"workload.{COLUMNS[sort]}"
        match sort:
            case Field.NAME:
                return "workload.name"
            case Field.GPUS:
                return GPUS
            case Field.ALLOCATED:
                return ALLOCATED
            case Field.IDLE | Field.IDLE_WHOLE:
                return IDLE
            case _:
                return self._ranked(sort)

    def _past(self, sort: Field) -> str:
        """The key in a form that no index has: what is few is sorted, and no index of the order is walked for it."""
        key = self._key(sort)
        column = COLUMN.fullmatch(key)
        return past(column[1]) if column else key

    def _tie(self, sort: Field) -> str:
        return CREATED if sort in COLUMNS or sort in BY_USE or sort is Field.GUARANTEED else ""

    def _ranked(self, sort: Field) -> str:
        """The place of a value that is made from a column."""
        values = self._ranks or values_of(self._transaction, sort)
        known: Values = {key: value for key, value in values.items() if value is not None}
        cases = [
            f"WHEN {_literal(key)} THEN {rank}"
            for rank, keys in enumerate(in_order(known, descending=False))
            for key in keys
        ]
        return f"CASE workload.{COLUMNS[sort]} {' '.join(cases)} END" if cases else CREATED

    def _with_leaving(self, asked: Asked, parts: list[Part], sort: Field) -> list[Part]:
        """Deleted workloads are shown until their pods are gone; there are never many."""
        if not asked.leaving:
            return parts
        condition = f"{LEAVING} AND {asked.where(aside=True)}"
        return [*parts, self._sorted("workload", condition, sort)]

    def _sorted(self, source: str, condition: str, sort: Field) -> Part:
        """Few workloads, in an order that no index has."""
        at_home = f"{source} {AT_HOME}" if sort in HOMES_OF else source
        return Part(at_home, condition, self._past(sort), self._tie(sort))

    def _run(self, asked: Asked, more: dict[str, object], parts: Sequence[Part], offset: int, limit: int) -> list[str]:
        params = {**asked.params, **more, "limit": limit, "offset": offset, "most": offset + limit}
        if len(parts) == 1:
            rows = self._transaction.all(f"{self._select(parts[0])} LIMIT :limit OFFSET :offset", params)
            return [row[0] for row in rows]
        each = [f"SELECT * FROM ({self._select(part)} LIMIT :most) AS part_{n}" for n, part in enumerate(parts)]
        rows = self._transaction.all(
            f"""
            SELECT uid, place, tie FROM ({" UNION ALL ".join(each)}) AS together
            ORDER BY place {self._way} NULLS LAST, tie {self._way}, uid {self._way}
            LIMIT :limit OFFSET :offset
            """,
            params,
        )
        return [row[0] for row in rows]

    def _select(self, part: Part) -> str:
        tie = f"{part.tie} {self._way}," if part.tie else ""
        order = part.order or f"{part.key} {self._way} NULLS LAST, {tie} workload.uid {self._way}"
        return f"""
        SELECT workload.uid AS uid, {part.key} AS place, {part.tie or "0"} AS tie
        FROM {part.source}
        WHERE {part.condition}
        ORDER BY {order}
        """


def _aside(asked: Asked, sort: Field) -> str:
    """Every clause, none of them in the way of the index of the order."""
    ordered = "name" if sort is Field.NAME else TIME_COLUMNS.get(sort, "")
    leading = asked.in_time if sort is Field.CREATED else None
    clauses = [
        clause.on() if clause is leading or clause.column == ordered else clause.aside()
        for clause in (*asked.counts, *asked.others)
        if clause.field is not sort
    ]
    return " AND ".join(clauses) or "1 = 1"


def _parts(asked: Asked, sort: Field) -> tuple[str, str]:
    """What holds for each part of a time that is sorted by."""
    time = TIMES[sort]
    mine = [clause.parts for clause in asked.others if clause.field is sort]
    over, goes_on = zip((time.over, time.goes_on), *mine, strict=True)
    return " AND ".join(over), " AND ".join(goes_on)


def _implied(asked: Asked, sort: Field) -> Iterator[str]:
    """What is asked of one time says something of another: nothing happens to a workload before it is created, and its
    end is its last change of phase."""
    column = TIME_COLUMNS.get(sort, "")
    for clause in asked.others:
        if clause.column == column or clause.column not in TIME_COLUMNS.values() or "<>" in clause.sql:
            continue
        same = {clause.column, column} == {"ended_at", "phase_at"}
        later = column and clause.column == "submitted_at" and ">=" in clause.sql
        earlier = column == "submitted_at" and "<=" in clause.sql
        if same or later or earlier:
            yield clause.sql.replace("{}", f"workload.{column}")


def _literal(key: object) -> str:
    return str(key) if isinstance(key, int) else f"'{key}'"
