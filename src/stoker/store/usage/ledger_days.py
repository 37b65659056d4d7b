"""The ledger by day. A day always holds exactly what the ledger has of its hours: an hour is added in the transaction
that writes it, and taken out in the one that writes it again."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.store.base import Transaction

AMOUNTS = {
    "busy": "busy",
    "idle": "idle",
    "starting": "starting",
    "unmeasured": "unmeasured",
    "lost": "CASE WHEN payer = '' THEN 0 ELSE faulty END",
    "free": "free",
    "faulty": "faulty",
}
"""What a report has of each account, from a line of the ledger."""
TABLES = {"usage_day": "workspace_id, namespace, user_id, model", "workload_day": "payer, model, workspace_id"}
"""By what their rows of one day differ. The first does not tell workloads apart, so it is short."""
CHANGE = """
INSERT INTO {table} (cluster_id, day_at, {key}, {names})
SELECT cluster_id, :day_at, {key}, {sums}
FROM ledger
WHERE cluster_id = :cluster_id
  AND hour_at >= :first_at
  AND hour_at <= :last_at
GROUP BY cluster_id, {key}
ON CONFLICT (cluster_id, day_at, {key}) DO UPDATE SET {news}
"""
TIDY = """
DELETE FROM {table}
WHERE cluster_id = :cluster_id
  AND day_at = :day_at
  AND {nothing}
"""


def add(transaction: Transaction, cluster_id: str, hours: Iterable[int]) -> None:
    """The ledger of these hours is written."""
    for first, last in _stretches(hours):
        for table in TABLES:
            transaction.run(ADD[table], _params(cluster_id, first, last))


def take_out(transaction: Transaction, cluster_id: str, hour_at: int) -> None:
    """The ledger of this hour, if there is one, is about to be dropped."""
    params = _params(cluster_id, hour_at, hour_at)
    for table in TABLES:
        if transaction.run(TAKE_OUT[table], params):
            transaction.run(EMPTY[table], params)


def _stretches(hours: Iterable[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of hours that follow each other on a day."""
    numbered = enumerate(sorted(hours))
    for _, stretch in groupby(numbered, key=lambda pair: (pair[1] - pair[0] * HOUR_MS, pair[1] // DAY_MS)):
        together = [hour for _, hour in stretch]
        yield together[0], together[-1]


def _change(table: str, sign: str) -> str:
    return CHANGE.format(
        table=table,
        key=TABLES[table],
        names=", ".join(AMOUNTS),
        sums=", ".join(f"CAST(SUM({sign}({amount})) AS BIGINT)" for amount in AMOUNTS.values()),
        news=", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in AMOUNTS),
    )


ADD = {table: _change(table, "") for table in TABLES}
TAKE_OUT = {table: _change(table, "-") for table in TABLES}
EMPTY = {table: TIDY.format(table=table, nothing=" AND ".join(f"{name} = 0" for name in AMOUNTS)) for table in TABLES}


def _params(cluster_id: str, first_at: int, last_at: int) -> dict[str, object]:
    day_at = first_at // DAY_MS * DAY_MS
    return {"cluster_id": cluster_id, "first_at": first_at, "last_at": last_at, "day_at": day_at}
