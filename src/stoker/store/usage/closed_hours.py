"""Closed hours: the ledger and the rows of every level, written whole or not at all.

An hour that is closed again keeps the ids and the first times of its rows; what is no longer in it goes.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.usage import Account, Entry, HourRow, Levels, Payer
from stoker.store import counters, usage_days
from stoker.store.base import Row, Transaction

LEDGER_ACCOUNTS = tuple(account.value for account in Account)
MAKE_MONTH = "SELECT make_month(:hour_at)"
"""PostgreSQL cuts these tables by month; on SQLite it does nothing."""
DROP_LEDGER = "DELETE FROM ledger WHERE cluster_id = :cluster_id AND hour_at = :hour_at"
ADD_LEDGER = f"""
INSERT INTO ledger (cluster_id, hour_at, payer, model, workspace_id, namespace, user_id, {", ".join(LEDGER_ACCOUNTS)})
VALUES (:cluster_id, :hour_at, :payer, :model, :workspace_id, :namespace, :user_id,
        {", ".join(":" + name for name in LEDGER_ACCOUNTS)})
"""
DROP_COUNTS = """
DELETE FROM workload_hour_count
WHERE cluster_id = :cluster_id
  AND namespace = :namespace
  AND kind = :kind
  AND hour_at = :hour_at
"""
COUNTED = """
SELECT namespace, kind
FROM workload_hour
WHERE cluster_id = :cluster_id
  AND hour_at = :hour_at
"""  # by the primary key: with DISTINCT, SQLite would go through every hour in the order of namespaces
ADD_COUNT = """
INSERT INTO workload_hour_count (cluster_id, namespace, kind, hour_at, workloads)
VALUES (:cluster_id, :namespace, :kind, :hour_at, :workloads)
"""
NEWLY_DUE = """
INSERT INTO usage_hour (cluster_id, hour_at, closed_at, closes, due)
VALUES (:cluster_id, :hour_at, NULL, 0, 1)
ON CONFLICT (cluster_id, hour_at) DO UPDATE SET due = usage_hour.due + 1
"""
LATE = """
UPDATE usage_hour
SET due = due + 1
WHERE cluster_id = :cluster_id
  AND hour_at >= :from_hour
  AND hour_at < :to_hour
"""
CLOSED = """
UPDATE usage_hour
SET closed_at = :at, closes = closes + 1, due = CASE WHEN due = :due THEN 0 ELSE due END
WHERE cluster_id = :cluster_id
  AND hour_at = :hour_at
"""
DUE = """
SELECT hour_at, due
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND due > 0
  AND hour_at < :before
ORDER BY hour_at
LIMIT :limit
"""
WRITTEN = "SELECT 1 FROM cluster_hour WHERE cluster_id = :cluster_id AND hour_at = :hour_at"
TOO_SOON = """
SELECT hour_at
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND hour_at >= :before
  AND due = 0
"""
LAST_HOUR = "SELECT MAX(hour_at) FROM usage_hour WHERE cluster_id = :cluster_id"
EVERY = ""
"""Stands for all namespaces, or all kinds, in the counts."""

_json = msgspec.json.Encoder(order="deterministic").encode


class DueHour(Struct, frozen=True):
    """An hour that has to be closed. `due` grows with every reason, so that one which comes meanwhile is not lost."""

    hour_at: int
    due: int


class ClosedHour(Struct, frozen=True):
    """All that is written of an hour."""

    levels: Levels
    entries: Sequence[Entry]
    payers: Mapping[str, Payer]


class Hours(Struct, frozen=True):
    """A table of hours: what tells its rows of one hour apart, and the rest of its columns. `documents` are JSON."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    documents: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return ("cluster_id", "hour_at", *self.key, "id", *self.columns, "created_at", "updated_at")

    @property
    def existing(self) -> str:
        named = ", ".join((*self.key, "id", "created_at"))
        return f"SELECT {named} FROM {self.table} WHERE cluster_id = :cluster_id AND hour_at = :hour_at"

    @property
    def put(self) -> str:
        kept = ", ".join(("cluster_id", "hour_at", *self.key))
        news = ", ".join(f"{name} = excluded.{name}" for name in (*self.columns, "updated_at"))
        return (
            f"INSERT INTO {self.table} ({', '.join(self.names)}) VALUES ({', '.join(':' + n for n in self.names)}) "
            f"ON CONFLICT ({kept}) DO UPDATE SET {news}"
        )

    @property
    def drop(self) -> str:
        clauses = " AND ".join(f"{name} = :{name}" for name in ("cluster_id", "hour_at", *self.key))
        return f"DELETE FROM {self.table} WHERE {clauses}"


_STATS = ("utilization", "lowest", "highest", "samples")
CLUSTER_HOURS = Hours("cluster_hour", (), ("gpus", "capacity", "allocated", *_STATS, "p50", "p95"))
NAMESPACE_HOURS = Hours("namespace_hour", ("namespace",), ("gpus", "allocated", *_STATS, "workloads"))
DIMENSION_HOURS = Hours("dimension_hour", ("kind", "key", "value"), ("allocated", *_STATS, "workloads"))
WORKLOAD_HOURS = Hours(
    "workload_hour",
    ("uid",),
    (
        *("slug", "name", "kind", "namespace", "phase", "allocated", "requested_milli", *_STATS, "p50", "p95"),
        *("memory_used", "memory_highest", "memory_size", "replicas_milli", "replicas_highest", "replicas_lowest"),
        *("labels", "annotations"),
    ),
    ("labels", "annotations"),
)


def need_close(transaction: Transaction, cluster_id: str, hours: Iterable[int]) -> None:
    """These hours have to be closed, or closed again because something came late."""
    transaction.many(NEWLY_DUE, [{"cluster_id": cluster_id, "hour_at": hour} for hour in hours])


def came_late(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> None:
    """Something of this stretch of time has changed: those of its hours that are closed, or are just being closed from
    what was known before, are closed again."""
    first = from_at // HOUR_MS * HOUR_MS
    transaction.run(LATE, {"cluster_id": cluster_id, "from_hour": first, "to_hour": to_at})


def due(transaction: Transaction, cluster_id: str, before: int, limit: int = 100) -> list[DueHour]:
    """The hours that have to be closed, oldest first."""
    params = {"cluster_id": cluster_id, "before": before, "limit": limit}
    return [DueHour(*row) for row in transaction.all(DUE, params)]


def closed(transaction: Transaction, cluster_id: str, hour: DueHour, at: int) -> None:
    """The hour is written down, from all that was known when it became due."""
    transaction.run(CLOSED, {"cluster_id": cluster_id, "hour_at": hour.hour_at, "due": hour.due, "at": at})


def closed_too_soon(transaction: Transaction, cluster_id: str, before: int) -> list[int]:
    """Hours that were closed before they were over, by a clock that was ahead."""
    return [row[0] for row in transaction.all(TOO_SOON, {"cluster_id": cluster_id, "before": before})]


def last_hour(transaction: Transaction, cluster_id: str) -> int | None:
    """The newest hour that is closed or has to be."""
    row = transaction.one(LAST_HOUR, {"cluster_id": cluster_id})
    return row[0] if row else None


def put_hours(transaction: Transaction, cluster_id: str, hours: Sequence[ClosedHour], at: int) -> None:
    """Write hours down, oldest first; `closed` says so of each, in the same transaction."""
    moments = [each.levels.cluster.hour_at for each in hours]
    for day in dict.fromkeys(moment // DAY_MS * DAY_MS for moment in moments):
        transaction.one(MAKE_MONTH, {"hour_at": day})
    again = _written(transaction, cluster_id, moments)
    for moment in again:
        _take_out(transaction, cluster_id, moment)
    for table, rows in (
        (CLUSTER_HOURS, [each.levels.cluster for each in hours]),
        (NAMESPACE_HOURS, [row for each in hours for row in each.levels.namespaces]),
        (DIMENSION_HOURS, [row for each in hours for row in each.levels.dimensions]),
        (WORKLOAD_HOURS, [row for each in hours for row in each.levels.workloads]),
    ):
        _put(transaction, table, cluster_id, rows, again, at)
    transaction.many(ADD_COUNT, [row for each in hours for row in _counts(cluster_id, each.levels)])
    transaction.many(ADD_LEDGER, [row for each in hours for row in _ledger_rows(cluster_id, each)])
    usage_days.add(transaction, cluster_id, moments)


def _written(transaction: Transaction, cluster_id: str, moments: Iterable[int]) -> list[int]:
    """Which of these hours were written before."""
    hours = ({"cluster_id": cluster_id, "hour_at": moment} for moment in moments)
    return [hour["hour_at"] for hour in hours if transaction.one(WRITTEN, hour)]


def _take_out(transaction: Transaction, cluster_id: str, moment: int) -> None:
    """What an hour has in the ledger, and how many workloads: all of it is written anew."""
    hour = {"cluster_id": cluster_id, "hour_at": moment}
    before = {pair for namespace, kind in set(transaction.all(COUNTED, hour)) for pair in _pairs(namespace, kind)}
    transaction.many(DROP_COUNTS, [{**hour, "namespace": namespace, "kind": kind} for namespace, kind in before])
    usage_days.take_out(transaction, cluster_id, moment)
    transaction.run(DROP_LEDGER, hour)


def _put(
    transaction: Transaction, hours: Hours, cluster_id: str, rows: Sequence[HourRow], again: Iterable[int], at: int
) -> None:
    known: dict[tuple[Any, ...], Row] = {}
    for moment in again:
        for row in transaction.all(hours.existing, {"cluster_id": cluster_id, "hour_at": moment}):
            known[moment, *row[:-2]] = row[-2:]
    keys = [(row.hour_at, *(getattr(row, name) for name in hours.key)) for row in rows]
    ids = iter(counters.advance_by(transaction, hours.table, sum(key not in known for key in keys)))
    kept = []
    for key, row in zip(keys, rows, strict=True):
        number, created_at = known.pop(key, None) or (next(ids), at)
        told = {name: _json(getattr(row, name)).decode() for name in hours.documents}
        whole = {"cluster_id": cluster_id, "id": number, "created_at": created_at, "updated_at": at}
        kept.append({**structs.asdict(row), **whole, **told})
    names = ("hour_at", *hours.key)
    transaction.many(hours.drop, [{"cluster_id": cluster_id, **dict(zip(names, key, strict=True))} for key in known])
    transaction.many(hours.put, kept)


def _ledger_rows(cluster_id: str, hour: ClosedHour) -> list[dict[str, object]]:
    lines: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(LEDGER_ACCOUNTS, 0))
    for entry in hour.entries:
        lines[entry.payer, entry.model][entry.account] += entry.amount
    place = {"cluster_id": cluster_id, "hour_at": hour.levels.cluster.hour_at}
    rows: list[dict[str, object]] = []
    for (uid, model), amounts in lines.items():
        payer = hour.payers.get(uid)
        whose = (payer.workspace_id, payer.namespace, payer.user_id) if payer else (0, "", "")
        named = dict(zip(("workspace_id", "namespace", "user_id"), whose, strict=True))
        rows.append({**place, **named, **amounts, "payer": uid, "model": model})
    return rows


def _counts(cluster_id: str, levels: Levels) -> list[dict[str, object]]:
    """How many workloads the hour has, by namespace and kind and over all of them: totals are read from here."""
    counts = Counter(pair for row in levels.workloads for pair in _pairs(row.namespace, row.kind))
    place = {"cluster_id": cluster_id, "hour_at": levels.cluster.hour_at}
    return [
        {**place, "namespace": namespace, "kind": kind, "workloads": number}
        for (namespace, kind), number in counts.items()
    ]


def _pairs(namespace: str, kind: str) -> list[tuple[str, str]]:
    return [(namespace, kind), (namespace, EVERY), (EVERY, kind), (EVERY, EVERY)]
