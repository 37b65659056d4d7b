"""Closed hours: the ledger and the rollup rows of every level, written in one transaction.

An hour that is closed again keeps the ids and creation times of its rows; rows that no longer belong to it are
deleted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.usage.hours import HourRollups, HourRow
from stoker.domain.usage.ledger import CostOwner, LedgerEntry, UsageCategory
from stoker.store.db.base import Row, Transaction
from stoker.store.sql import sequences
from stoker.store.usage import ledger_days

LEDGER_CATEGORIES = tuple(category.value for category in UsageCategory)
CREATE_PARTITION = "SELECT create_month_partitions(:hour_at)"
"""Creates the monthly partitions on PostgreSQL; does nothing on SQLite."""
DELETE_LEDGER = "DELETE FROM ledger WHERE cluster_id = :cluster_id AND hour_at = :hour_at"
ADD_LEDGER = f"""
INSERT INTO ledger (cluster_id, hour_at, workload_uid, model, workspace_id, namespace, user_id,
                    {", ".join(LEDGER_CATEGORIES)})
VALUES (:cluster_id, :hour_at, :workload_uid, :model, :workspace_id, :namespace, :user_id,
        {", ".join(":" + name for name in LEDGER_CATEGORIES)})
"""
DELETE_COUNTS = """
DELETE FROM workload_hour_count
WHERE cluster_id = :cluster_id
  AND namespace = :namespace
  AND kind = :kind
  AND hour_at = :hour_at
"""
COUNTED_GROUPS = """
SELECT namespace, kind
FROM workload_hour
WHERE cluster_id = :cluster_id
  AND hour_at = :hour_at
"""  # uses the primary key; with DISTINCT, SQLite would scan all hours in namespace order
ADD_COUNT = """
INSERT INTO workload_hour_count (cluster_id, namespace, kind, hour_at, workloads)
VALUES (:cluster_id, :namespace, :kind, :hour_at, :workloads)
"""
MARK_DUE = """
INSERT INTO usage_hour (cluster_id, hour_at, closed_at, close_count, due)
VALUES (:cluster_id, :hour_at, NULL, 0, 1)
ON CONFLICT (cluster_id, hour_at) DO UPDATE SET due = usage_hour.due + 1
"""
MARK_DUE_AGAIN = """
UPDATE usage_hour
SET due = due + 1
WHERE cluster_id = :cluster_id
  AND hour_at >= :from_hour
  AND hour_at < :to_hour
"""
MARK_CLOSED = """
UPDATE usage_hour
SET closed_at = :at, close_count = close_count + 1, due = CASE WHEN due = :due THEN 0 ELSE due END
WHERE cluster_id = :cluster_id
  AND hour_at = :hour_at
"""
DUE_HOURS = """
SELECT hour_at, due
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND due > 0
  AND hour_at >= :kept_from
  AND hour_at < :before
ORDER BY hour_at
LIMIT :limit
"""
HOUR_EXISTS = "SELECT 1 FROM cluster_hour WHERE cluster_id = :cluster_id AND hour_at = :hour_at"
CLOSED_EARLY = """
SELECT hour_at
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND hour_at >= :before
  AND due = 0
"""
RETAINED_FROM = "usage_kept_from"
LAST_HOUR = "SELECT MAX(hour_at) FROM usage_hour WHERE cluster_id = :cluster_id"
ANY_GROUP = ""
"""Stands for all namespaces, or all kinds, in `workload_hour_count`."""

_encode_json = msgspec.json.Encoder(order="deterministic").encode


class DueHour(Struct, frozen=True):
    """An hour that has to be closed. `due` counts the reasons, so that one arriving during the close is not lost."""

    hour_at: int
    due: int


class ClosedHour(Struct, frozen=True):
    """Everything that closing an hour writes."""

    levels: HourRollups
    entries: Sequence[LedgerEntry]
    cost_owners: Mapping[str, CostOwner]


class HourTable(Struct, frozen=True):
    """A rollup table: the columns that identify a row within its hour, and the others. `json_columns` are encoded."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    json_columns: tuple[str, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        return ("cluster_id", "hour_at", *self.key, "id", *self.columns, "created_at", "updated_at")

    @property
    def select_existing_sql(self) -> str:
        columns = ", ".join((*self.key, "id", "created_at"))
        return f"SELECT {columns} FROM {self.table} WHERE cluster_id = :cluster_id AND hour_at = :hour_at"

    @property
    def upsert_sql(self) -> str:
        key = ", ".join(("cluster_id", "hour_at", *self.key))
        fixed = {"cluster_id", "hour_at", *self.key, "id", "created_at"}
        updates = ", ".join(f"{column} = excluded.{column}" for column in self.column_names if column not in fixed)
        values = ", ".join(f":{name}" for name in self.column_names)
        return (
            f"INSERT INTO {self.table} ({', '.join(self.column_names)}) VALUES ({values}) "
            f"ON CONFLICT ({key}) DO UPDATE SET {updates}"
        )

    @property
    def delete_sql(self) -> str:
        clauses = " AND ".join(f"{name} = :{name}" for name in ("cluster_id", "hour_at", *self.key))
        return f"DELETE FROM {self.table} WHERE {clauses}"


_STAT_COLUMNS = ("utilization", "min_utilization", "max_utilization", "samples")
CLUSTER_HOURS = HourTable("cluster_hour", (), ("gpus", "capacity", "allocated", *_STAT_COLUMNS, "p50", "p95"))
NAMESPACE_HOURS = HourTable("namespace_hour", ("namespace",), ("gpus", "allocated", *_STAT_COLUMNS, "workloads"))
DIMENSION_HOURS = HourTable("dimension_hour", ("kind", "key", "value"), ("allocated", *_STAT_COLUMNS, "workloads"))
WORKLOAD_HOURS = HourTable(
    "workload_hour",
    ("uid",),
    (
        *("slug", "name", "kind", "namespace", "phase", "allocated", "requested_milli", *_STAT_COLUMNS, "p50", "p95"),
        *("memory_used", "max_memory", "memory_size", "replicas_milli", "max_replicas", "min_replicas"),
        *("labels", "annotations"),
    ),
    ("labels", "annotations"),
)


def mark_due(transaction: Transaction, cluster_id: str, hours: Iterable[int]) -> None:
    """Mark hours to be closed, or closed again because late data arrived."""
    transaction.execute_many(MARK_DUE, [{"cluster_id": cluster_id, "hour_at": hour} for hour in hours])


def mark_due_again(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> None:
    """Mark the hours of [from_at, to_at) to be closed again, because their data changed.

    This includes hours that are being closed at the moment, from the old data.
    """
    first_hour = from_at // HOUR_MS * HOUR_MS
    transaction.execute(MARK_DUE_AGAIN, {"cluster_id": cluster_id, "from_hour": first_hour, "to_hour": to_at})


def due_hours(transaction: Transaction, cluster_id: str, before: int, limit: int = 100) -> list[DueHour]:
    """The hours before a time that have to be closed, oldest first."""
    params = {"cluster_id": cluster_id, "kept_from": retained_from(transaction), "before": before, "limit": limit}
    return [DueHour(*row) for row in transaction.fetch_all(DUE_HOURS, params)]


def mark_closed(transaction: Transaction, cluster_id: str, hour: DueHour, at: int) -> None:
    """Mark an hour as closed; it stays due if another reason arrived since `hour` was read."""
    transaction.execute(MARK_CLOSED, {"cluster_id": cluster_id, "hour_at": hour.hour_at, "due": hour.due, "at": at})


def hours_closed_early(transaction: Transaction, cluster_id: str, before: int) -> list[int]:
    """Hours that were closed before their end, because the clock was ahead."""
    return [row[0] for row in transaction.fetch_all(CLOSED_EARLY, {"cluster_id": cluster_id, "before": before})]


def last_hour(transaction: Transaction, cluster_id: str) -> int | None:
    """The newest hour that is closed or due."""
    row = transaction.fetch_one(LAST_HOUR, {"cluster_id": cluster_id})
    return row[0] if row else None


def retained_from(transaction: Transaction) -> int:
    """The start of the usage data; older rows are deleted or being deleted."""
    return sequences.current_value(transaction, RETAINED_FROM)


def set_retained_from(transaction: Transaction, day_at: int) -> None:
    """Hide usage from before a day. The mark never moves back, because older rows may be deleted."""
    if day_at > retained_from(transaction):
        sequences.set_mark(transaction, RETAINED_FROM, day_at)


def write_hours(transaction: Transaction, cluster_id: str, hours: Sequence[ClosedHour], at: int) -> None:
    """Write hours, oldest first; `mark_closed` follows for each in the same transaction."""
    hour_times = [hour.levels.cluster.hour_at for hour in hours]
    for day in dict.fromkeys(hour_at // DAY_MS * DAY_MS for hour_at in hour_times):
        transaction.fetch_one(CREATE_PARTITION, {"hour_at": day})
    rewritten = _existing_hours(transaction, cluster_id, hour_times)
    for hour_at in rewritten:
        _subtract_hour(transaction, cluster_id, hour_at)
    for table, rows in (
        (CLUSTER_HOURS, [hour.levels.cluster for hour in hours]),
        (NAMESPACE_HOURS, [row for hour in hours for row in hour.levels.namespaces]),
        (DIMENSION_HOURS, [row for hour in hours for row in hour.levels.dimensions]),
        (WORKLOAD_HOURS, [row for hour in hours for row in hour.levels.workloads]),
    ):
        _write_rows(transaction, table, cluster_id, rows, rewritten, at)
    transaction.execute_many(ADD_COUNT, [row for hour in hours for row in _count_rows(cluster_id, hour.levels)])
    transaction.execute_many(ADD_LEDGER, [row for hour in hours for row in _ledger_rows(cluster_id, hour)])
    ledger_days.add_hours(transaction, cluster_id, hour_times)


def _existing_hours(transaction: Transaction, cluster_id: str, hour_times: Iterable[int]) -> list[int]:
    """The hours that were written before."""
    hours = ({"cluster_id": cluster_id, "hour_at": hour_at} for hour_at in hour_times)
    return [hour["hour_at"] for hour in hours if transaction.fetch_one(HOUR_EXISTS, hour)]


def _subtract_hour(transaction: Transaction, cluster_id: str, hour_at: int) -> None:
    """Delete the ledger and the counts of an hour that is about to be written again."""
    hour = {"cluster_id": cluster_id, "hour_at": hour_at}
    groups = {
        pair
        for namespace, kind in set(transaction.fetch_all(COUNTED_GROUPS, hour))
        for pair in _count_groups(namespace, kind)
    }
    transaction.execute_many(
        DELETE_COUNTS, [{**hour, "namespace": namespace, "kind": kind} for namespace, kind in groups]
    )
    ledger_days.subtract_hour(transaction, cluster_id, hour_at)
    transaction.execute(DELETE_LEDGER, hour)


def _write_rows(
    transaction: Transaction,
    table: HourTable,
    cluster_id: str,
    rows: Sequence[HourRow],
    rewritten: Iterable[int],
    at: int,
) -> None:
    known: dict[tuple[Any, ...], Row] = {}
    for hour_at in rewritten:
        for row in transaction.fetch_all(table.select_existing_sql, {"cluster_id": cluster_id, "hour_at": hour_at}):
            known[hour_at, *row[:-2]] = row[-2:]
    keys = [(row.hour_at, *(getattr(row, name) for name in table.key)) for row in rows]
    ids = iter(sequences.next_values(transaction, table.table, sum(key not in known for key in keys)))
    written = []
    for key, row in zip(keys, rows, strict=True):
        row_id, created_at = known.pop(key, None) or (next(ids), at)
        encoded = {name: _encode_json(getattr(row, name)).decode() for name in table.json_columns}
        metadata = {"cluster_id": cluster_id, "id": row_id, "created_at": created_at, "updated_at": at}
        written.append({**structs.asdict(row), **metadata, **encoded})
    names = ("hour_at", *table.key)
    transaction.execute_many(
        table.delete_sql, [{"cluster_id": cluster_id, **dict(zip(names, key, strict=True))} for key in known]
    )
    transaction.execute_many(table.upsert_sql, written)


def _ledger_rows(cluster_id: str, hour: ClosedHour) -> list[dict[str, object]]:
    amounts_by_line: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(
        lambda: dict.fromkeys(LEDGER_CATEGORIES, 0)
    )
    for entry in hour.entries:
        amounts_by_line[entry.workload_uid, entry.model][entry.category] += entry.amount
    hour_key = {"cluster_id": cluster_id, "hour_at": hour.levels.cluster.hour_at}
    rows: list[dict[str, object]] = []
    for (uid, model), amounts in amounts_by_line.items():
        owner = hour.cost_owners.get(uid)
        values = (owner.workspace_id, owner.namespace, owner.user_id) if owner else (0, "", "")
        owner_columns = dict(zip(("workspace_id", "namespace", "user_id"), values, strict=True))
        rows.append({**hour_key, **owner_columns, **amounts, "workload_uid": uid, "model": model})
    return rows


def _count_rows(cluster_id: str, levels: HourRollups) -> list[dict[str, object]]:
    """The number of workloads of the hour by namespace, by kind, by both and in total."""
    counts = Counter(pair for row in levels.workloads for pair in _count_groups(row.namespace, row.kind))
    hour_key = {"cluster_id": cluster_id, "hour_at": levels.cluster.hour_at}
    return [
        {**hour_key, "namespace": namespace, "kind": kind, "workloads": count}
        for (namespace, kind), count in counts.items()
    ]


def _count_groups(namespace: str, kind: str) -> list[tuple[str, str]]:
    return [(namespace, kind), (namespace, ANY_GROUP), (ANY_GROUP, kind), (ANY_GROUP, ANY_GROUP)]
