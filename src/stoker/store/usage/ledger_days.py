"""Daily sums of the ledger. A day always equals the sum of its hours in the ledger: the transaction that writes an hour
adds it, and the one that rewrites the hour subtracts it first."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.store.db.base import Transaction

LEDGER_AMOUNTS = {
    "busy": "busy",
    "idle": "idle",
    "starting": "starting",
    "unmeasured": "unmeasured",
    "lost": "CASE WHEN workload_uid = '' THEN 0 ELSE faulty END",
    "free": "free",
    "faulty": "faulty",
}
"""The amount of each report category, as an expression over a ledger row."""
DAY_TABLE_KEYS = {
    "usage_day": "workspace_id, namespace, user_id, model",
    "workload_day": "workload_uid, model, workspace_id",
}
"""The key of each table within a day. `usage_day` has no workload column, so it is much smaller."""
ACCUMULATE = """
INSERT INTO {table} (cluster_id, day_at, {key}, {names})
SELECT cluster_id, :day_at, {key}, {sums}
FROM ledger
WHERE cluster_id = :cluster_id
  AND hour_at >= :first_at
  AND hour_at <= :last_at
GROUP BY cluster_id, {key}
ON CONFLICT (cluster_id, day_at, {key}) DO UPDATE SET {updates}
"""
DELETE_ZERO_ROWS_TEMPLATE = """
DELETE FROM {table}
WHERE cluster_id = :cluster_id
  AND day_at = :day_at
  AND {all_zero}
"""


def add_hours(transaction: Transaction, cluster_id: str, hours: Iterable[int]) -> None:
    """Add hours that were just written to the ledger."""
    for first, last in _consecutive_ranges(hours):
        for table in DAY_TABLE_KEYS:
            transaction.execute(ADD_HOURS[table], _params(cluster_id, first, last))


def subtract_hour(transaction: Transaction, cluster_id: str, hour_at: int) -> None:
    """Subtract an hour whose ledger rows, if any, are about to be deleted."""
    params = _params(cluster_id, hour_at, hour_at)
    for table in DAY_TABLE_KEYS:
        if transaction.execute(SUBTRACT_HOURS[table], params):
            transaction.execute(DELETE_ZERO_ROWS[table], params)


def _consecutive_ranges(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and last hour of each run of consecutive hours within a day."""
    numbered = enumerate(sorted(hours))
    for _, run in groupby(numbered, key=lambda pair: (pair[1] - pair[0] * HOUR_MS, pair[1] // DAY_MS)):
        consecutive = [hour for _, hour in run]
        yield consecutive[0], consecutive[-1]


def _accumulate_sql(table: str, sign: str) -> str:
    return ACCUMULATE.format(
        table=table,
        key=DAY_TABLE_KEYS[table],
        names=", ".join(LEDGER_AMOUNTS),
        sums=", ".join(f"CAST(SUM({sign}({amount})) AS BIGINT)" for amount in LEDGER_AMOUNTS.values()),
        updates=", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in LEDGER_AMOUNTS),
    )


ADD_HOURS = {table: _accumulate_sql(table, "") for table in DAY_TABLE_KEYS}
SUBTRACT_HOURS = {table: _accumulate_sql(table, "-") for table in DAY_TABLE_KEYS}
DELETE_ZERO_ROWS = {
    table: DELETE_ZERO_ROWS_TEMPLATE.format(
        table=table, all_zero=" AND ".join(f"{name} = 0" for name in LEDGER_AMOUNTS)
    )
    for table in DAY_TABLE_KEYS
}


def _params(cluster_id: str, first_at: int, last_at: int) -> dict[str, object]:
    day_at = first_at // DAY_MS * DAY_MS
    return {"cluster_id": cluster_id, "first_at": first_at, "last_at": last_at, "day_at": day_at}
