"""What is asked of workloads, as clauses, and where the few that can be meant are found.

Clauses on what there are few different values of hold for the counts as well, so that it is known before how many
workloads are meant.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stoker.domain.inventory import Field
from stoker.store.base import Transaction
from stoker.store.inventory_filters import (
    ALIKE,
    AMONG_HOLDERS,
    GONE,
    LEAVING,
    LIVE,
    SAME,
    TIME_COLUMNS,
    Clause,
    one_of,
)
from stoker.store.inventory_search import search_uids

GATHERED = 12_000
"""So many workloads are looked at one by one and sorted, whatever the order is."""
MOST_GATHERED = 30_000
NAMED = 2_048
"""So many are named by their uids."""
SIZES = (16, 128, NAMED)
"""How many uids a statement has: filled up to the next size, so that there are few different statements."""
NAMES = "names"
HOLDERS = "workload_use CROSS JOIN workload"
HELD = "workload.uid = workload_use.workload_uid"
IN_TIME = ("phase", "kind", "workspace_id", "user_id")
"""Columns with an index in which the workloads of one value are in the order of creation."""
COUNTED = "SELECT COALESCE(SUM(workloads), 0) FROM workload_count WHERE {condition}"
SIZE = "SELECT hidden, SUM(workloads) FROM workload_count GROUP BY hidden"


class Asked(Struct, frozen=True):
    """A query as clauses; those in `counts` hold for the counts as well. `hidden` says which counts are meant and
    `base` which workloads, `everything` is how many there are without any clause, `leaving` how many of them are on
    their way out, and `total` how many there are but for the other clauses."""

    hidden: str
    base: str
    everything: int
    leaving: int
    total: int
    counts: tuple[Clause, ...]
    others: tuple[Clause, ...]
    search: str
    params: dict[str, object]
    looked_for: "dict[str, Source | None]"
    """What was found by looking at every name, which is done once."""

    @property
    def deleted(self) -> bool:
        return self.base is GONE

    @property
    def in_time(self) -> Clause | None:
        """The clause on one value whose workloads an index has in the order of creation."""
        if self.deleted:
            return None
        return next(
            (
                clause
                for clause in self.counts
                if clause.column in IN_TIME and len(clause.params) == 1 and not clause.sql.startswith("NOT")
            ),
            None,
        )

    def with_values(self, column: str, values: Sequence[object], tag: str, total: int) -> "Asked":
        clause = one_of(column, values, tag)
        params = {**self.params, **clause.params}
        return structs.replace(self, counts=(*self.counts, clause), params=params, total=total)

    def where(self, *, aside: bool = False) -> str:
        clauses = (*self.counts, *self.others)
        return " AND ".join(clause.aside() if aside else clause.on() for clause in clauses) or "1 = 1"

    def on_counts(self) -> str:
        return " AND ".join((self.hidden, *(clause.on("workload_count") for clause in self.counts)))


class Source(Struct, frozen=True):
    """Where few workloads are found; `aside` keeps the other clauses out of the way of the index that finds them, and
    `instead` is how some of what is asked is said there."""

    source: str
    condition: str
    params: dict[str, object] = {}
    aside: bool = False
    instead: Mapping[str, str] = {}

    def where(self, asked: Asked) -> str:
        return self.said(f"{self.condition} AND {asked.where(aside=self.aside)}")

    def said(self, sql: str) -> str:
        for of_all, of_them in self.instead.items():
            sql = sql.replace(of_all, of_them)
        return sql


def asked_for(
    transaction: Transaction,
    now: int,
    counts: Sequence[Clause],
    others: Sequence[Clause],
    *,
    search: str = "",
    deleted: bool = False,
    leaving: bool = False,
) -> Asked:
    """Workloads that there are, with those on their way out or not, or those that are deleted."""
    params: dict[str, object] = {"now": now}
    for clause in (*counts, *others):
        params |= clause.params
    sizes = {hidden: int(number) for hidden, number in transaction.all(SIZE)}
    going = sizes.get(1, 0) if leaving and not deleted else 0
    everything = sizes.get(2, 0) if deleted else sizes.get(0, 0) + going
    hidden = "hidden = 2" if deleted else "hidden < 2" if leaving else "hidden = 0"
    base = GONE if deleted else LIVE
    asked = Asked(hidden, base, everything, going, everything, tuple(counts), tuple(others), search, params, {})
    if not counts:
        return asked
    total = number(transaction, COUNTED.format(condition=asked.on_counts()), params)
    return structs.replace(asked, total=total, counts=asked.counts if total < everything else ())


def count(transaction: Transaction, asked: Asked) -> int:
    if not asked.others or not asked.total:
        return asked.total
    found = gathered(transaction, asked, few_of(asked.everything, 1), None) or Source("workload", asked.base)
    params = {**asked.params, **found.params}
    statement = f"SELECT workload.uid FROM {found.source} WHERE {found.where(asked)}"
    if found.source == "workload" and not found.params and any(clause.scan for clause in asked.others):
        statement += " ORDER BY workload.name"  # so that the index of names is read, and not the workloads
    there = number(transaction, f"SELECT COUNT(*) FROM ({statement}) AS found", params)
    if asked.leaving:
        there += number(transaction, f"SELECT COUNT(*) FROM workload WHERE {LEAVING} AND {asked.where()}", params)
    return there


def few_of(everything: int, wanted: int) -> int:
    return min(MOST_GATHERED, max(GATHERED, math.isqrt(everything * wanted)))


def gathered(transaction: Transaction, asked: Asked, few: int, sort: Field | None) -> Source | None:
    """Where the few workloads that can be meant are found; None when they are many."""
    if asked.everything <= few:
        return Source("workload", asked.base)
    if not asked.deleted and asked.total <= few and asked.counts:
        condition = structs.replace(asked, hidden="hidden = 0").on_counts()
        alike = Source(ALIKE.format(condition=condition), f"{SAME} AND {asked.base}")
        return _narrow(transaction, asked, asked.total // 4, sort) or alike
    if (narrow := _narrow(transaction, asked, few, sort)) is not None or few < NAMED:
        return narrow
    if NAMES not in asked.looked_for:
        asked.looked_for[NAMES] = _named(transaction, asked)
    return asked.looked_for[NAMES]


def _narrow(transaction: Transaction, asked: Asked, few: int, sort: Field | None) -> Source | None:
    """Everything that one of the clauses leaves, if it leaves few."""
    walked = "name" if sort is Field.NAME else TIME_COLUMNS.get(sort, "") if sort else ""
    narrow = [clause for clause in asked.others if clause.narrow]
    for column, field in dict.fromkeys((clause.column, clause.field) for clause in narrow):
        if (column and column == walked) or (field and field is sort):
            continue
        clauses = [clause for clause in narrow if (clause.column, clause.field) == (column, field)]
        if column == "submitted_at" and asked.in_time is not None:
            clauses.append(asked.in_time)
        # What lies close together in time lies close together on the disk, and costs half as much.
        most = 2 * few if column in TIME_COLUMNS.values() else few
        params: dict[str, object] = {"found_most": most + 1}
        together = " AND ".join(clause.on() for clause in clauses)
        if clauses[0].parts:
            conditions = [" AND ".join(parts) for parts in zip(*(clause.parts for clause in clauses), strict=True)]
            found = " UNION ALL ".join(
                f"SELECT * FROM ({_uids('workload', f'{asked.base} AND {each}')} LIMIT :found_most) AS part_{place}"
                for place, each in enumerate(conditions)
            )
        elif column:
            found = _uids("workload", f"{asked.base} AND {together}")
        else:
            found = f"SELECT workload_uid FROM workload_use WHERE {holders(asked).said(together)}"
        found = f"SELECT * FROM ({found}) AS few LIMIT :found_most"
        if number(transaction, f"SELECT COUNT(*) FROM ({found}) AS probe", {**asked.params, **params}) > most:
            continue
        if column:
            return Source("workload", f"{asked.base} AND {together}", aside=True)
        if not clauses[0].parts:
            return holders(asked)
        return Source(f"({found}) AS found CROSS JOIN workload", f"workload.uid = found.uid AND {asked.base}", params)
    return None


def _named(transaction: Transaction, asked: Asked) -> Source | None:
    """Everything that has a text in its name, or that a text is searched for in, if there are few."""
    params = {**asked.params, "named": NAMED + 1}
    uids: list[str] | None = None
    for clause in asked.others:
        if clause.scan and uids is None:
            found = f"{_uids('workload', f'{asked.base} AND {clause.on()}')} ORDER BY workload.name LIMIT :named"
            rows = transaction.all(found, params)
            uids = [row[0] for row in rows] if len(rows) <= NAMED else None
    if uids is None and asked.search:
        uids = search_uids(transaction, asked.search, NAMED, deleted=asked.deleted)
    if uids is None:
        return None
    size = next(size for size in SIZES if size >= len(uids))
    filled = [*uids, *([uids[-1] if uids else ""] * (size - len(uids)))]
    keys: dict[str, object] = {f"uid_{place}": uid for place, uid in enumerate(filled)}
    return Source("workload", f"workload.uid IN ({', '.join(f':{name}' for name in keys)}) AND {asked.base}", keys)


def holders(asked: Asked) -> Source:
    """Everything that holds something."""
    return Source(HOLDERS, f"{HELD} AND {asked.base}", instead=AMONG_HOLDERS)


def _uids(source: str, condition: str) -> str:
    return f"SELECT workload.uid FROM {source} WHERE {condition}"


def number(transaction: Transaction, sql: str, params: dict[str, object]) -> int:
    row = transaction.one(sql, params)
    return int(row[0]) if row else 0
