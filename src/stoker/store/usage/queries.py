"""Queries over closed hours, ordered by time or utilization, with exact totals.

Totals of workload rows come from `workload_hour_count`; the rows themselves are not counted.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, structs

from stoker.domain.queries.pages import PageRequest, PageResult
from stoker.domain.usage.hours import (
    ClusterHour,
    DimensionHour,
    DimensionQuery,
    HourSort,
    HoursQuery,
    NamespaceHour,
    WorkloadHour,
)
from stoker.store.db.base import Params, Row, Transaction
from stoker.store.sql.pagination import where_clause
from stoker.store.usage.closed_hours import (
    ANY_GROUP,
    CLUSTER_HOURS,
    DIMENSION_HOURS,
    NAMESPACE_HOURS,
    WORKLOAD_HOURS,
    HourTable,
    retained_from,
)

UTILIZATION_INDEX_SCAN = "utilization >= 0 AND utilization <= 10000"
"""Matches every row. It makes SQLite scan the index on utilization in order, rather than collect and sort rows."""
UNINDEXED_UTILIZATION = "utilization + 0"
"""The same value, but not an indexed column, so that rows are collected by the other conditions and sorted."""
SORT_COST_FACTOR = 4
"""Collecting and sorting a row costs as much as passing this many rows in an index scan."""
FAR_FUTURE_HOUR = 1 << 62
HOUR_RANGE = "cluster_id = :cluster_id AND hour_at >= :from_at AND hour_at <= :to_at"
COUNTS_OF_GROUP = f"""
FROM workload_hour_count
WHERE {HOUR_RANGE}
  AND namespace = :namespace
  AND kind = :kind
"""
TOTAL_WORKLOADS = f"SELECT COALESCE(CAST(SUM(workloads) AS BIGINT), 0) {COUNTS_OF_GROUP}"
WORKLOADS_BY_HOUR = f"SELECT hour_at, workloads {COUNTS_OF_GROUP} ORDER BY hour_at"
CLUSTERS = """
SELECT cluster.name
FROM cluster
WHERE EXISTS (
    SELECT 1
    FROM cluster_hour
    WHERE cluster_id = cluster.id
      AND hour_at >= :from_at
      AND hour_at <= :to_at
)
ORDER BY cluster.name
"""
NAMESPACES = f"SELECT DISTINCT namespace FROM namespace_hour WHERE {HOUR_RANGE} ORDER BY namespace"
DIMENSION_KEYS = f"SELECT DISTINCT key FROM dimension_hour WHERE kind = :kind AND {HOUR_RANGE} ORDER BY key"
DIMENSION_VALUES = (
    f"SELECT DISTINCT value FROM dimension_hour WHERE kind = :kind AND key = :key AND {HOUR_RANGE} ORDER BY value"
)

T = TypeVar("T", bound=Struct)
HourQuery = HoursQuery | DimensionQuery
Q = TypeVar("Q", bound=HoursQuery | DimensionQuery)

_decode_labels = msgspec.json.Decoder(dict[str, str]).decode


class HourLevel(Struct, Generic[T], frozen=True):
    """A level of rollups: its table, row type, order and filters."""

    table: HourTable
    row_type: Callable[..., T]
    order_columns: tuple[str, ...]
    filter_columns: tuple[str, ...] = ()

    def where_clause(self, query: HourQuery, *more: str) -> str:
        filters = [f"{name} = :{name}" for name in self.filter_columns if getattr(query, name)]
        return where_clause(HOUR_RANGE, *filters, *more)


CLUSTER_LEVEL = HourLevel(CLUSTER_HOURS, ClusterHour, ("hour_at",))
NAMESPACE_LEVEL = HourLevel(NAMESPACE_HOURS, NamespaceHour, ("hour_at", "namespace"), ("namespace",))
DIMENSION_LEVEL = HourLevel(DIMENSION_HOURS, DimensionHour, ("hour_at", "value"), ("kind", "key", "value"))
WORKLOAD_LEVEL = HourLevel(WORKLOAD_HOURS, WorkloadHour, ("hour_at", "uid"), ("namespace", "kind", "name"))


def list_hours(transaction: Transaction, level: HourLevel[T], query: HourQuery, page: PageRequest) -> PageResult[T]:
    """One page of rows, in the order of the level."""
    query = _within_retention(transaction, query)
    condition, params = level.where_clause(query), structs.asdict(query)
    found = fetch_rows(transaction, level, condition, ", ".join(level.order_columns), params, page)
    return PageResult(found, count_rows(transaction, level, condition, params))


def hours_after(transaction: Transaction, level: HourLevel[T], query: HourQuery, last: T | None, limit: int) -> list[T]:
    """The rows after `last`, or the first rows if it is None."""
    query = _within_retention(transaction, query)
    order = ", ".join(level.order_columns)
    keyset = [] if last is None else [f"({order}) > ({', '.join(f':after_{name}' for name in level.order_columns)})"]
    after = {f"after_{name}": getattr(last, name, None) for name in level.order_columns} if last else {}
    params = {**structs.asdict(query), **after}
    return fetch_rows(transaction, level, level.where_clause(query, *keyset), order, params, PageRequest(0, limit))


def list_workload_hours(transaction: Transaction, query: HoursQuery, page: PageRequest) -> PageResult[WorkloadHour]:
    """One page of workload rows; ties are ordered by hour and uid."""
    query = _within_retention(transaction, query)
    condition, params = WORKLOAD_LEVEL.where_clause(query), structs.asdict(query)
    total = (
        count_rows(transaction, WORKLOAD_LEVEL, condition, params)
        if query.name
        else _count_workloads(transaction, query)
    )
    order = WORKLOAD_LEVEL.order_columns
    if query.order is HourSort.UTILIZATION:
        index_scan = not query.name and _is_index_scan_cheaper(transaction, query, page, total)
        condition = WORKLOAD_LEVEL.where_clause(query, UTILIZATION_INDEX_SCAN) if index_scan else condition
        order = ("utilization" if index_scan else UNINDEXED_UTILIZATION, *order)
    elif page.offset and not query.name:
        query, page = _skip_whole_hours(transaction, query, page)
        params = structs.asdict(query)
    direction = "DESC" if query.descending else "ASC"
    ordered = ", ".join(f"{column} {direction}" for column in order)
    return PageResult(fetch_rows(transaction, WORKLOAD_LEVEL, condition, ordered, params, page), total)


def cluster_names(transaction: Transaction, from_at: int, to_at: int) -> list[str]:
    return _fetch_names(transaction, CLUSTERS, {"from_at": max(from_at, retained_from(transaction)), "to_at": to_at})


def namespace_names(transaction: Transaction, query: HoursQuery) -> list[str]:
    return _fetch_names(transaction, NAMESPACES, structs.asdict(_within_retention(transaction, query)))


def dimension_keys(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return _fetch_names(transaction, DIMENSION_KEYS, structs.asdict(_within_retention(transaction, query)))


def dimension_values(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return _fetch_names(transaction, DIMENSION_VALUES, structs.asdict(_within_retention(transaction, query)))


def _within_retention(transaction: Transaction, query: Q) -> Q:
    """The query limited to hours within the retention period."""
    return structs.replace(query, from_at=max(query.from_at, retained_from(transaction)))


def _fetch_names(transaction: Transaction, sql: str, params: Params) -> list[str]:
    return [row[0] for row in transaction.fetch_all(sql, params)]


def fetch_rows(
    transaction: Transaction,
    level: HourLevel[T],
    condition: str,
    order: str,
    params: Params,
    page: PageRequest | None,
) -> list[T]:
    """The rows that match a condition, in order: one page, or all if `page` is None."""
    names = level.table.column_names[1:]
    sql = f"SELECT {', '.join(names)} FROM {level.table.table} {condition} ORDER BY {order}"
    if page is not None:
        sql += " LIMIT :limit OFFSET :offset"
        params = {**params, "limit": page.limit, "offset": page.offset}
    found = transaction.fetch_all(sql, params)
    return [level.row_type(**_row_fields(names, row)) for row in found]


def _row_fields(names: tuple[str, ...], row: Row) -> dict[str, Any]:
    fields = dict(zip(names, row, strict=True))
    for name in ("labels", "annotations"):
        if name in fields:
            fields[name] = _decode_labels(fields[name])
    return fields


def count_rows(transaction: Transaction, level: HourLevel[Any], condition: str, params: Params) -> int:
    row = transaction.fetch_one(f"SELECT COUNT(*) FROM {level.table.table} {condition}", params)
    return row[0] if row else 0


def _group_params(query: HoursQuery) -> Params:
    return {**structs.asdict(query), "namespace": query.namespace or ANY_GROUP, "kind": query.kind or ANY_GROUP}


def _count_workloads(transaction: Transaction, query: HoursQuery) -> int:
    row = transaction.fetch_one(TOTAL_WORKLOADS, _group_params(query))
    return row[0] if row else 0


def _is_index_scan_cheaper(transaction: Transaction, query: HoursQuery, page: PageRequest, total: int) -> bool:
    """Whether scanning the utilization index over all hours up to the page is cheaper than sorting the rows of the
    requested hours."""
    scanned = (page.offset + page.limit) * _count_workloads(
        transaction, structs.replace(query, from_at=0, to_at=FAR_FUTURE_HOUR)
    )
    return scanned <= SORT_COST_FACTOR * total * total


def _skip_whole_hours(transaction: Transaction, query: HoursQuery, page: PageRequest) -> tuple[HoursQuery, PageRequest]:
    """The query and page without the hours that lie entirely before the page, so that late pages are as fast as
    early ones."""
    counts = transaction.fetch_all(WORKLOADS_BY_HOUR, _group_params(query))
    offset = page.offset
    for hour_at, count in reversed(counts) if query.descending else counts:
        if offset < count:
            bound = {"to_at": hour_at} if query.descending else {"from_at": hour_at}
            return structs.replace(query, **bound), PageRequest(offset, page.limit)
        offset -= count
    return query, PageRequest(page.offset, 0)
