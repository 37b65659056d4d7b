"""The ledger added up by the database: by whatever is asked for, over any hours, a page of it with the exact total.

Whole days are read by day, and only the ends of the range by hour. The primary keys find the hours and days of a
cluster, the indexes `…_of_workspace` those of a workspace. What comes back is as long as the page, however long the
range is.
"""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.listing import Listing, Window
from stoker.domain.report import Amounts, Group, UsageBy, UsageQuery
from stoker.store import usage_days
from stoker.store.base import Params, Row, Transaction
from stoker.store.keys import by_keys

AMOUNTS = ", ".join(usage_days.AMOUNTS)
SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT) AS {name}" for name in usage_days.AMOUNTS)
FROM_LEDGER = ", ".join(f"{amount} AS {name}" for name, amount in usage_days.AMOUNTS.items())
HELD = "busy + idle + starting + unmeasured + lost"
SORTS = {"allocated": HELD, "busy": "busy", "idle": "idle"}
KEYS = {
    UsageBy.CLUSTER: ("usage_day", "cluster_id"),
    UsageBy.WORKSPACE: ("usage_day", "workspace_id"),
    UsageBy.NAMESPACE: ("usage_day", "namespace"),
    UsageBy.USER: ("usage_day", "user_id"),
    UsageBy.MODEL: ("usage_day", "model"),
    UsageBy.WORKLOAD: ("workload_day", "payer"),
    UsageBy.LABEL: ("workload_day", "payer"),
}
"""Which days tell it, and by which column; a label is looked up for the workloads."""
LINES = f"""
SELECT {{key}} AS key, model, {AMOUNTS}
FROM {{days}}
WHERE {{whose}}
  AND day_at >= :first_day
  AND day_at < :last_day
UNION ALL
SELECT {{key}} AS key, model, {FROM_LEDGER}
FROM ledger
WHERE {{whose}}
  AND hour_at >= :from_at
  AND hour_at < :first_day
UNION ALL
SELECT {{key}} AS key, model, {FROM_LEDGER}
FROM ledger
WHERE {{whose}}
  AND hour_at >= :last_day
  AND hour_at < :to_at
"""
"""Whole days, and the hours before and after them."""
SHARES = f"SELECT key, model, {SUMS} FROM ({LINES}) AS line {{held}} GROUP BY key, model"
LABEL_SHARES = f"""
SELECT COALESCE(workload_label.value, '') AS key, held.model, {SUMS}
FROM ({SHARES}) AS held
LEFT JOIN workload_label ON workload_label.workload_uid = held.key
    AND workload_label.kind = 'label'
    AND workload_label.key = :label
GROUP BY COALESCE(workload_label.value, ''), held.model
"""
PAGE = """
WITH share AS ({shares}),
whole AS (
    SELECT key, CAST(SUM({sort}) AS BIGINT) AS place, COUNT(*) OVER () AS total
    FROM share
    GROUP BY key
    ORDER BY place {way}, key
    LIMIT :limit
    OFFSET :offset
)
SELECT whole.total, share.key, share.model, {names}
FROM whole
JOIN share ON share.key = whole.key
ORDER BY whole.place {way}, whole.key, share.model
"""
COUNT = "SELECT COUNT(*) FROM (SELECT key FROM ({shares}) AS share GROUP BY key) AS whole"
NOT_CLOSED = """
SELECT MIN(hour_at)
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND due > 0
  AND closed_at IS NULL
"""
LAST = "SELECT MAX(hour_at) FROM usage_hour WHERE cluster_id = :cluster_id"
WORKSPACES = "SELECT id, name FROM workspace WHERE id IN (:keys)"
FORMER_WORKSPACES = """
SELECT workspace_id, MIN(namespace)
FROM usage_day
WHERE workspace_id IN (:keys)
GROUP BY workspace_id
"""  # index usage_day_of_workspace
USERS = "SELECT id, name FROM account WHERE id IN (:keys)"
FORMER_USERS = """
SELECT user_id, MIN(user_name)
FROM workload
WHERE user_id IN (:keys)
  AND deleted_at IS NULL
GROUP BY user_id
"""  # index workload_of_user
FORGOTTEN_USERS = """
SELECT user_id, MIN(user_name)
FROM workload
WHERE user_id IN (:keys)
  AND deleted_at IS NOT NULL
GROUP BY user_id
"""  # all of index workload_gone_at: only for users who are gone with all they had
WORKLOADS = """
SELECT workload.uid, workload.slug, workload.workspace_id, COALESCE(workspace.name, ''), workload.user_name,
       cluster.name
FROM workload
JOIN cluster ON cluster.id = workload.cluster_id
LEFT JOIN workspace ON workspace.id = workload.workspace_id
WHERE workload.uid IN (:keys)
"""


class PaidFor(Struct, frozen=True):
    """Whose a workload is."""

    uid: str
    slug: str
    workspace_id: int
    workspace: str
    user: str
    cluster: str


def page(transaction: Transaction, query: UsageQuery, window: Window) -> Listing[Group]:
    """Some rows in the order that is asked for; what is equal is ordered by key."""
    shares, params = _shares(query), _params(query)
    sql = PAGE.format(
        shares=shares,
        sort=SORTS[query.sort],
        way="DESC" if query.descending else "ASC",
        names=", ".join(f"share.{name}" for name in usage_days.AMOUNTS),
    )
    rows = transaction.all(sql, {**params, "limit": window.limit, "offset": window.offset})
    if rows:
        return Listing(_groups(row[1:] for row in rows), rows[0][0])
    counted = transaction.one(COUNT.format(shares=shares), params) if window.offset else None
    return Listing([], counted[0] if counted else 0)


def totals(transaction: Transaction, query: UsageQuery) -> dict[str, Amounts]:
    """Everything that is asked for, by model; with what nobody held where all may be seen."""
    rows = transaction.all(_shares(structs.replace(query, by=UsageBy.MODEL)), _params(query))
    return {model: Amounts(*amounts) for _, model, *amounts in rows}


def through(transaction: Transaction, cluster_id: str) -> int | None:
    """The end of the last hour up to which all are closed; None for a cluster that never had GPUs."""
    [first_open] = transaction.one(NOT_CLOSED, {"cluster_id": cluster_id}) or (None,)
    [last] = transaction.one(LAST, {"cluster_id": cluster_id}) or (None,)
    if first_open is not None:
        return first_open
    return None if last is None else last + HOUR_MS


def workspace_names(transaction: Transaction, ids: Collection[int]) -> dict[str, str]:
    """By id; of those that are gone, the namespace that they had."""
    known: dict[int, str] = {}
    for sql in (WORKSPACES, FORMER_WORKSPACES):
        known |= by_keys(transaction, sql, set(ids) - known.keys())
    return {str(number): name for number, name in known.items()}


def user_names(transaction: Transaction, ids: Collection[str]) -> dict[str, str]:
    """By id; of those that are gone, as their workloads remember them, which may be gone too."""
    known: dict[str, str] = {}
    for sql in (USERS, FORMER_USERS, FORGOTTEN_USERS):
        known |= by_keys(transaction, sql, set(ids) - known.keys())
    return known


def workloads(transaction: Transaction, uids: Collection[str]) -> dict[str, PaidFor]:
    return {row[0]: PaidFor(*row) for row in by_keys(transaction, WORKLOADS, uids)}


def _shares(query: UsageQuery) -> str:
    days, key = KEYS[query.by]
    sql = LABEL_SHARES if query.by is UsageBy.LABEL else SHARES
    return sql.format(days=days, key=key, whose=_whose(query), held="" if query.whole else f"WHERE {HELD} > 0")


def _whose(query: UsageQuery) -> str:
    clusters = _names("cluster", query.cluster_ids)
    if query.workspace_ids is None:
        return f"cluster_id IN ({clusters})"
    workspaces = _names("workspace", query.workspace_ids)
    return (
        f"workspace_id IN ({workspaces}) AND cluster_id || '' IN ({clusters})"  # so that the workspace's index is used
    )


def _params(query: UsageQuery) -> Params:
    first_day, last_day = -(-query.from_at // DAY_MS) * DAY_MS, query.to_at // DAY_MS * DAY_MS
    if first_day > last_day:
        first_day = last_day = query.to_at
    params: dict[str, Any] = {
        "from_at": query.from_at,
        "to_at": query.to_at,
        "first_day": first_day,
        "last_day": last_day,
        "label": query.label,
    }
    params |= {f"cluster_{number}": each for number, each in enumerate(query.cluster_ids)}
    return params | {f"workspace_{number}": each for number, each in enumerate(query.workspace_ids or ())}


def _names(stem: str, values: Collection[object]) -> str:
    """Their parameters; none at all finds nothing."""
    return ", ".join(f":{stem}_{number}" for number in range(len(values))) or "NULL"


def _groups(rows: Iterable[Row]) -> list[Group]:
    found: dict[str, dict[str, Amounts]] = {}
    for key, model, *amounts in rows:
        found.setdefault(str(key), {})[model] = Amounts(*amounts)
    return [Group(key, models) for key, models in found.items()]
