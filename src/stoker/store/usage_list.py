"""Closed hours, read back: by time or by utilisation, always in the same order, with exact totals.

A total is never counted over the rows of workloads: hours keep counts of them by namespace and kind.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from stoker.domain.listing import Listing, Window
from stoker.domain.usage import (
    ClusterHour,
    DimensionHour,
    DimensionQuery,
    HoursOrder,
    HoursQuery,
    NamespaceHour,
    WorkloadHour,
)
from stoker.store.base import Params, Row, Transaction
from stoker.store.listing import where
from stoker.store.usage import CLUSTER_HOURS, DIMENSION_HOURS, EVERY, NAMESPACE_HOURS, WORKLOAD_HOURS, Hours

FEW = 2_000
"""So many rows are sorted at once sooner than they are found one by one along an index of another order."""
RANGE = "cluster_id = :cluster_id AND hour_at >= :from_at AND hour_at <= :to_at"
COUNTED = """
SELECT COALESCE(CAST(SUM(workloads) AS BIGINT), 0)
FROM workload_hour_count
WHERE cluster_id = :cluster_id
  AND namespace = :namespace
  AND kind = :kind
  AND hour_at >= :from_at
  AND hour_at <= :to_at
"""
NAMESPACES = f"SELECT DISTINCT namespace FROM namespace_hour WHERE {RANGE} ORDER BY namespace"
KEYS = f"SELECT DISTINCT key FROM dimension_hour WHERE kind = :kind AND {RANGE} ORDER BY key"
VALUES = f"SELECT DISTINCT value FROM dimension_hour WHERE kind = :kind AND key = :key AND {RANGE} ORDER BY value"

T = TypeVar("T", bound=Struct)

_map = msgspec.json.Decoder(dict[str, str]).decode


def cluster_hours(transaction: Transaction, query: HoursQuery, window: Window) -> Listing[ClusterHour]:
    return _page(transaction, CLUSTER_HOURS, ClusterHour, where(RANGE), "hour_at", _params(query), window)


def namespace_hours(transaction: Transaction, query: HoursQuery, window: Window) -> Listing[NamespaceHour]:
    condition = where(RANGE, "namespace = :namespace" if query.namespace else None)
    order = "hour_at, namespace"
    return _page(transaction, NAMESPACE_HOURS, NamespaceHour, condition, order, _params(query), window)


def dimension_hours(transaction: Transaction, query: DimensionQuery, window: Window) -> Listing[DimensionHour]:
    value = "value = :value" if query.value else None
    condition = where(RANGE, "kind = :kind", "key = :key", value)
    return _page(transaction, DIMENSION_HOURS, DimensionHour, condition, "hour_at, value", _params(query), window)


def workload_hours(transaction: Transaction, query: HoursQuery, window: Window) -> Listing[WorkloadHour]:
    """One page; the uid is the last key of every order."""
    params = _params(query)
    named = "name = :name" if query.name else None
    condition = where(
        RANGE, "namespace = :namespace" if query.namespace else None, "kind = :kind" if query.kind else None, named
    )
    total = _count(transaction, "workload_hour", condition, params) if named else _counted(transaction, query)
    way = "DESC" if query.descending else "ASC"
    # A sum is no column of an index: it keeps the planner from walking the whole order for a handful of rows.
    first = "utilization" if total > FEW else "utilization + 0"
    keys = {HoursOrder.TIME: ("hour_at", "uid"), HoursOrder.UTILIZATION: (first, "hour_at", "uid")}[query.order]
    order = ", ".join(f"{key} {way}" for key in keys)
    return Listing(_rows(transaction, WORKLOAD_HOURS, WorkloadHour, condition, order, params, window), total)


def namespaces(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[str]:
    params = {"cluster_id": cluster_id, "from_at": from_at, "to_at": to_at}
    return [row[0] for row in transaction.all(NAMESPACES, params)]


def dimension_keys(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return [row[0] for row in transaction.all(KEYS, _params(query))]


def dimension_values(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return [row[0] for row in transaction.all(VALUES, _params(query))]


def _page(
    transaction: Transaction,
    hours: Hours,
    build: Callable[..., T],
    condition: str,
    order: str,
    params: Params,
    window: Window,
) -> Listing[T]:
    total = _count(transaction, hours.table, condition, params)
    return Listing(_rows(transaction, hours, build, condition, order, params, window), total)


def _rows(
    transaction: Transaction,
    hours: Hours,
    build: Callable[..., T],
    condition: str,
    order: str,
    params: Params,
    window: Window,
) -> list[T]:
    names = hours.names[1:]
    found = transaction.all(
        f"SELECT {', '.join(names)} FROM {hours.table} {condition} ORDER BY {order} LIMIT :limit OFFSET :offset",
        {**params, "limit": window.limit, "offset": window.offset},
    )
    return [build(**_fields(names, row)) for row in found]


def _fields(names: tuple[str, ...], row: Row) -> dict[str, Any]:
    fields = dict(zip(names, row, strict=True))
    for name in ("labels", "annotations"):
        if name in fields:
            fields[name] = _map(fields[name])
    return fields


def _count(transaction: Transaction, table: str, condition: str, params: Params) -> int:
    row = transaction.one(f"SELECT COUNT(*) FROM {table} {condition}", params)
    return row[0] if row else 0


def _counted(transaction: Transaction, query: HoursQuery) -> int:
    params = {**_params(query), "namespace": query.namespace or EVERY, "kind": query.kind or EVERY}
    row = transaction.one(COUNTED, params)
    return row[0] if row else 0


def _params(query: Struct) -> dict[str, object]:
    return msgspec.structs.asdict(query)
