"""Closed hours of the workloads of selected workspaces. Workloads are matched by workspace id, not by namespace."""

import msgspec
from msgspec import structs

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.hours import DimensionQuery, HourSort, HoursQuery, WorkloadHour
from stoker.store.db.base import Params, Transaction
from stoker.store.sql.pagination import where_clause
from stoker.store.usage.queries import HOUR_RANGE, WORKLOAD_LEVEL, HourQuery, count_rows, fetch_rows

WORKSPACE_CONDITION = "uid IN (SELECT workload.uid FROM workload WHERE workload.workspace_id IN ({ids}))"
CLUSTERS = """
SELECT DISTINCT cluster.name
FROM workload_hour
JOIN cluster ON cluster.id = workload_hour.cluster_id
WHERE {condition}
  AND hour_at >= :from_at
  AND hour_at <= :to_at
ORDER BY cluster.name
"""
NAMESPACES = "SELECT DISTINCT namespace FROM workload_hour {condition} ORDER BY namespace"
DISTINCT_LABELS = "SELECT DISTINCT {column} FROM workload_hour {condition}"
NAMESPACE_CAPACITIES = """
SELECT hour_at, namespace, gpus
FROM namespace_hour
WHERE cluster_id = :cluster_id
  AND hour_at >= :from_at
  AND hour_at <= :to_at
"""

_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


def list_workload_hours(
    transaction: Transaction, query: HoursQuery, workspace_ids: tuple[int, ...], page: PageRequest
) -> PageResult[WorkloadHour]:
    """One page of workload rows; ties are ordered by hour and uid."""
    clause, params = _workspace_condition(workspace_ids, query)
    condition = WORKLOAD_LEVEL.where_clause(query, clause)
    order = (
        ("utilization", *WORKLOAD_LEVEL.order_columns)
        if query.order is HourSort.UTILIZATION
        else WORKLOAD_LEVEL.order_columns
    )
    direction = "DESC" if query.descending else "ASC"
    ordered = ", ".join(f"{column} {direction}" for column in order)
    found = fetch_rows(transaction, WORKLOAD_LEVEL, condition, ordered, params, page)
    return PageResult(found, count_rows(transaction, WORKLOAD_LEVEL, condition, params))


def hours_in_range(transaction: Transaction, query: HourQuery, workspace_ids: tuple[int, ...]) -> list[WorkloadHour]:
    """All workload rows of the query's time range, by hour."""
    clause, params = _workspace_condition(workspace_ids, query)
    names = HoursQuery(query.cluster_id, query.from_at, query.to_at, getattr(query, "namespace", ""))
    condition = WORKLOAD_LEVEL.where_clause(names, clause)
    return fetch_rows(transaction, WORKLOAD_LEVEL, condition, "hour_at, uid", {**structs.asdict(names), **params}, None)


def namespace_capacities(transaction: Transaction, query: HourQuery) -> dict[tuple[int, str], int]:
    """The GPUs available to each namespace, by hour and namespace."""
    return {(at, name): gpus for at, name, gpus in transaction.fetch_all(NAMESPACE_CAPACITIES, structs.asdict(query))}


def cluster_names(transaction: Transaction, from_at: int, to_at: int, workspace_ids: tuple[int, ...]) -> list[str]:
    clause, params = _workspace_condition(workspace_ids)
    found = transaction.fetch_all(CLUSTERS.format(condition=clause), {**params, "from_at": from_at, "to_at": to_at})
    return [row[0] for row in found]


def namespace_names(transaction: Transaction, query: HoursQuery, workspace_ids: tuple[int, ...]) -> list[str]:
    clause, params = _workspace_condition(workspace_ids, query)
    return [
        row[0] for row in transaction.fetch_all(NAMESPACES.format(condition=where_clause(HOUR_RANGE, clause)), params)
    ]


def distinct_labels(
    transaction: Transaction, query: DimensionQuery, workspace_ids: tuple[int, ...]
) -> list[dict[str, str]]:
    """The distinct sets of labels, or annotations, of the workloads."""
    clause, params = _workspace_condition(workspace_ids, query)
    sql = DISTINCT_LABELS.format(column=f"{query.kind}s", condition=where_clause(HOUR_RANGE, clause))
    return [_decode_labels(row[0]) for row in transaction.fetch_all(sql, params)]


def _workspace_condition(workspace_ids: tuple[int, ...], query: HourQuery | None = None) -> tuple[str, Params]:
    params = {f"workspace_{number}": workspace_id for number, workspace_id in enumerate(workspace_ids)}
    clause = WORKSPACE_CONDITION.format(ids=", ".join(f":{name}" for name in params)) if params else "1 = 0"
    return clause, {**(structs.asdict(query) if query else {}), **params}
