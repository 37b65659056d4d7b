"""Usage reports: sums of the ledger by cluster, workspace, namespace, user, model, workload or label, in pages.

Whole days are read from the daily sums, and only the ends of the range from the hourly ledger. The primary keys find
the rows of a cluster, the indexes `…_by_workspace` those of a workspace. The database returns one page, however long
the range is.

A sum of milli-GPU-milliseconds can exceed 64 bits: 100,000 GPUs reach the limit in three years. An amount is therefore
summed in two columns, whole GPU-hours and the rest, and joined in Python.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from msgspec import Struct, structs

from stoker.domain.clock import DAY_MS, HOUR_MS
from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.ledger import GPU_HOUR
from stoker.domain.usage.report import UsageAmounts, UsageGroup, UsageGroupBy, UsageQuery
from stoker.store.db.base import Params, Row, Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.usage import ledger_days, open_hours

AMOUNT_COLUMNS = ", ".join(ledger_days.LEDGER_AMOUNTS)
ZERO_AMOUNTS = ", ".join("0" for _ in ledger_days.LEDGER_AMOUNTS)
AMOUNT_NAMES = (*ledger_days.LEDGER_AMOUNTS, "open")
SPLIT_COLUMNS = tuple(f"{name}_{half}" for name in AMOUNT_NAMES for half in ("hours", "rest"))
SPLIT_SUMS = ", ".join(
    f"CAST(SUM({name} / {GPU_HOUR}) AS BIGINT) AS {name}_hours, CAST(SUM({name} % {GPU_HOUR}) AS BIGINT) AS {name}_rest"
    for name in AMOUNT_NAMES
)
SPLIT_COLUMN_SUMS = ", ".join(f"CAST(SUM({half}) AS BIGINT) AS {half}" for half in SPLIT_COLUMNS)
LEDGER_COLUMNS = ", ".join(f"{amount} AS {name}" for name, amount in ledger_days.LEDGER_AMOUNTS.items())
ALLOCATED_CATEGORIES = ("busy", "idle", "starting", "unmeasured", "lost", "open")
ALLOCATED_SUM = " + ".join(ALLOCATED_CATEGORIES)
SORT_CATEGORIES = {"allocated": ALLOCATED_CATEGORIES, "busy": ("busy",), "idle": ("idle",)}
GROUP_COLUMNS = {
    UsageGroupBy.CLUSTER: ("usage_day", "cluster_id"),
    UsageGroupBy.WORKSPACE: ("usage_day", "workspace_id"),
    UsageGroupBy.NAMESPACE: ("usage_day", "namespace"),
    UsageGroupBy.USER: ("usage_day", "user_id"),
    UsageGroupBy.MODEL: ("usage_day", "model"),
    UsageGroupBy.WORKLOAD: ("workload_day", "workload_uid"),
    UsageGroupBy.LABEL: ("workload_day", "workload_uid"),
}
"""The daily table and the column of each grouping; labels are joined to workloads."""
USAGE_LINES = f"""
SELECT {{key}} AS key, model, {AMOUNT_COLUMNS}, 0 AS open
FROM {{days}}
WHERE {{scope}}
  AND day_at >= :first_day
  AND day_at < :last_day
UNION ALL
SELECT {{key}} AS key, model, {LEDGER_COLUMNS}, 0
FROM ledger
WHERE {{scope}}
  AND hour_at >= :from_at
  AND hour_at < :first_day
UNION ALL
SELECT {{key}} AS key, model, {LEDGER_COLUMNS}, 0
FROM ledger
WHERE {{scope}}
  AND hour_at >= :last_day
  AND hour_at < :to_at
{{open}}
"""
"""Whole days, the hours before and after them, and the allocations of hours that are not closed yet."""
SUMS_BY_KEY = f"SELECT key, model, {SPLIT_SUMS} FROM ({USAGE_LINES}) AS line {{allocated}} GROUP BY key, model"
SUMS_BY_LABEL = f"""
SELECT COALESCE(workload_label.value, '') AS key, amounts.model, {SPLIT_COLUMN_SUMS}
FROM ({SUMS_BY_KEY}) AS amounts
LEFT JOIN workload_label ON workload_label.workload_uid = amounts.key
    AND workload_label.kind = 'label'
    AND workload_label.key = :label
GROUP BY COALESCE(workload_label.value, ''), amounts.model
"""
PAGE_OF_GROUPS = f"""
WITH share AS ({{shares}}),
halves AS (
    SELECT key, CAST(SUM({{hours}}) AS BIGINT) AS hours, CAST(SUM({{rest}}) AS BIGINT) AS rest
    FROM share
    GROUP BY key
),
whole AS (
    SELECT key, hours + rest / {GPU_HOUR} AS hours, rest % {GPU_HOUR} AS rest, COUNT(*) OVER () AS total
    FROM halves
    ORDER BY 2 {{direction}}, 3 {{direction}}, key
    LIMIT :limit
    OFFSET :offset
)
SELECT whole.total, share.key, share.model, {", ".join(f"share.{half}" for half in SPLIT_COLUMNS)}
FROM whole
JOIN share ON share.key = whole.key
ORDER BY whole.hours {{direction}}, whole.rest {{direction}}, whole.key, share.model
"""
COUNT_GROUPS = "SELECT COUNT(*) FROM (SELECT key FROM ({shares}) AS share GROUP BY key) AS whole"
FIRST_UNCLOSED_HOUR = """
SELECT MIN(hour_at)
FROM usage_hour
WHERE cluster_id = :cluster_id
  AND due > 0
  AND closed_at IS NULL
"""
LAST_HOUR = "SELECT MAX(hour_at) FROM usage_hour WHERE cluster_id = :cluster_id"
WORKSPACE_NAMES = "SELECT id, name FROM workspace WHERE id IN (:keys)"
DELETED_WORKSPACE_NAMES = """
SELECT workspace_id, MIN(namespace)
FROM usage_day
WHERE workspace_id IN (:keys)
GROUP BY workspace_id
"""  # index usage_day_by_workspace
USER_NAMES = "SELECT id, name FROM user_account WHERE id IN (:keys)"
USER_NAMES_FROM_WORKLOADS = """
SELECT user_id, MIN(user_name)
FROM workload
WHERE user_id IN (:keys)
  AND deleted_at IS NULL
GROUP BY user_id
"""  # index workload_by_user
USER_NAMES_FROM_DELETED_WORKLOADS = """
SELECT user_id, MIN(user_name)
FROM workload
WHERE user_id IN (:keys)
  AND deleted_at IS NOT NULL
GROUP BY user_id
"""  # scans index workload_deleted_by_deleted_at: only for deleted users without other workloads
WORKLOAD_OWNERS = """
SELECT workload.uid, workload.slug, workload.workspace_id, COALESCE(workspace.name, ''), workload.user_name,
       cluster.name
FROM workload
JOIN cluster ON cluster.id = workload.cluster_id
LEFT JOIN workspace ON workspace.id = workload.workspace_id
WHERE workload.uid IN (:keys)
"""


class WorkloadOwner(Struct, frozen=True):
    """The workspace, user and cluster of a workload."""

    uid: str
    slug: str
    workspace_id: int
    workspace: str
    user: str
    cluster: str


def list_groups(transaction: Transaction, query: UsageQuery, page: PageRequest) -> PageResult[UsageGroup]:
    """One page of groups in the query's order; ties are ordered by key."""
    shares, params = _sums_sql(query), _params(query)
    sql = PAGE_OF_GROUPS.format(
        shares=shares,
        hours=" + ".join(f"{name}_hours" for name in SORT_CATEGORIES[query.sort]),
        rest=" + ".join(f"{name}_rest" for name in SORT_CATEGORIES[query.sort]),
        direction="DESC" if query.descending else "ASC",
    )
    rows = transaction.fetch_all(sql, {**params, "limit": page.limit, "offset": page.offset})
    if rows:
        return PageResult(_build_groups(row[1:] for row in rows), rows[0][0])
    counted = transaction.fetch_one(COUNT_GROUPS.format(shares=shares), params) if page.offset else None
    return PageResult([], counted[0] if counted else 0)


def totals_by_model(transaction: Transaction, query: UsageQuery) -> dict[str, UsageAmounts]:
    """Total amounts of the query by model, with unallocated amounts if the query includes them."""
    rows = transaction.fetch_all(_sums_sql(structs.replace(query, group_by=UsageGroupBy.MODEL)), _params(query))
    return {model: _join_amounts(halves) for _, model, *halves in rows}


def closed_until(transaction: Transaction, cluster_id: str) -> int | None:
    """The time up to which all hours are closed; None for a cluster that never had GPUs."""
    [first_open] = transaction.fetch_one(FIRST_UNCLOSED_HOUR, {"cluster_id": cluster_id}) or (None,)
    [last] = transaction.fetch_one(LAST_HOUR, {"cluster_id": cluster_id}) or (None,)
    if first_open is not None:
        return first_open
    return None if last is None else last + HOUR_MS


def workspace_names(transaction: Transaction, ids: Collection[int]) -> dict[str, str]:
    """Workspace names by id; a deleted workspace is shown with its namespace."""
    known: dict[int, str] = {}
    for sql in (WORKSPACE_NAMES, DELETED_WORKSPACE_NAMES):
        known |= select_in(transaction, sql, set(ids) - known.keys())
    return {str(number): name for number, name in known.items()}


def user_names(transaction: Transaction, ids: Collection[str]) -> dict[str, str]:
    """User names by id; names of deleted users come from their workloads, if any are left."""
    known: dict[str, str] = {}
    for sql in (USER_NAMES, USER_NAMES_FROM_WORKLOADS, USER_NAMES_FROM_DELETED_WORKLOADS):
        known |= select_in(transaction, sql, set(ids) - known.keys())
    return known


def workload_owners(transaction: Transaction, uids: Collection[str]) -> dict[str, WorkloadOwner]:
    return {row[0]: WorkloadOwner(*row) for row in select_in(transaction, WORKLOAD_OWNERS, uids)}


def _sums_sql(query: UsageQuery) -> str:
    days, key = GROUP_COLUMNS[query.group_by]
    sql = SUMS_BY_LABEL if query.group_by is UsageGroupBy.LABEL else SUMS_BY_KEY
    return sql.format(
        days=days,
        key=key,
        scope=_scope_condition(query),
        open=open_hours.open_lines_sql(query, key, ZERO_AMOUNTS, _workspace_params(query)),
        allocated="" if query.includes_unallocated else f"WHERE {ALLOCATED_SUM} > 0",
    )


def _scope_condition(query: UsageQuery) -> str:
    clusters = _param_list("cluster", query.cluster_ids)
    if query.workspace_ids is None:
        return f"cluster_id IN ({clusters})"
    # the expression is not indexed, so that the index on the workspace is used
    return f"workspace_id IN ({_workspace_params(query)}) AND cluster_id || '' IN ({clusters})"


def _workspace_params(query: UsageQuery) -> str:
    """The parameters of the selected workspaces; empty for all."""
    return "" if query.workspace_ids is None else _param_list("workspace", query.workspace_ids)


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
    params |= {f"cluster_{number}": cluster_id for number, cluster_id in enumerate(query.cluster_ids)}
    params |= open_hours.open_params(query.unclosed_intervals)
    return params | {
        f"workspace_{number}": workspace_id for number, workspace_id in enumerate(query.workspace_ids or ())
    }


def _param_list(stem: str, values: Collection[object]) -> str:
    """Named parameters for an IN list; an empty list becomes NULL, which matches nothing."""
    return ", ".join(f":{stem}_{number}" for number in range(len(values))) or "NULL"


def _build_groups(rows: Iterable[Row]) -> list[UsageGroup]:
    groups: dict[str, dict[str, UsageAmounts]] = {}
    for key, model, *halves in rows:
        groups.setdefault(str(key), {})[model] = _join_amounts(halves)
    return [UsageGroup(key, models) for key, models in groups.items()]


def _join_amounts(halves: Sequence[int]) -> UsageAmounts:
    """Join the two columns of each amount."""
    return UsageAmounts(*(hours * GPU_HOUR + rest for hours, rest in zip(halves[::2], halves[1::2], strict=True)))
