"""Closed hours, read back: by time or by utilisation, always in the same order, with exact totals.

The total of workloads is never counted over their rows: hours keep counts of them by namespace and kind.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct, structs

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

WALKED = "utilization >= 0 AND utilization <= 10000"
"""Every utilisation. It makes SQLite walk an index in the order of utilisation, where it would gather and sort."""
GATHERED = "utilization + 0"
"""The same number, but no column of an index, so that rows are gathered by the rest of the condition and sorted."""
FETCH = 4
"""To gather a row and sort it takes as long as to pass so many on the way along an index."""
EVER = 1 << 62
RANGE = "cluster_id = :cluster_id AND hour_at >= :from_at AND hour_at <= :to_at"
OF_PAIR = f"""
FROM workload_hour_count
WHERE {RANGE}
  AND namespace = :namespace
  AND kind = :kind
"""
COUNTED = f"SELECT COALESCE(CAST(SUM(workloads) AS BIGINT), 0) {OF_PAIR}"
COUNTS = f"SELECT hour_at, workloads {OF_PAIR} ORDER BY hour_at"
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
NAMESPACES = f"SELECT DISTINCT namespace FROM namespace_hour WHERE {RANGE} ORDER BY namespace"
KEYS = f"SELECT DISTINCT key FROM dimension_hour WHERE kind = :kind AND {RANGE} ORDER BY key"
VALUES = f"SELECT DISTINCT value FROM dimension_hour WHERE kind = :kind AND key = :key AND {RANGE} ORDER BY value"

T = TypeVar("T", bound=Struct)
Query = HoursQuery | DimensionQuery

_map = msgspec.json.Decoder(dict[str, str]).decode


class Level(Struct, Generic[T], frozen=True):
    """A table of hours: what its rows are, what their order is, and by what they can be filtered."""

    hours: Hours
    build: Callable[..., T]
    order: tuple[str, ...]
    filters: tuple[str, ...] = ()

    def condition(self, query: Query, *more: str) -> str:
        given = [f"{name} = :{name}" for name in self.filters if getattr(query, name)]
        return where(RANGE, *given, *more)


CLUSTER = Level(CLUSTER_HOURS, ClusterHour, ("hour_at",))
NAMESPACE = Level(NAMESPACE_HOURS, NamespaceHour, ("hour_at", "namespace"), ("namespace",))
DIMENSION = Level(DIMENSION_HOURS, DimensionHour, ("hour_at", "value"), ("kind", "key", "value"))
WORKLOAD = Level(WORKLOAD_HOURS, WorkloadHour, ("hour_at", "uid"), ("namespace", "kind", "name"))


def page(transaction: Transaction, level: Level[T], query: Query, window: Window) -> Listing[T]:
    """Some rows by their place in the order."""
    condition, params = level.condition(query), structs.asdict(query)
    rows = _rows(transaction, level, condition, ", ".join(level.order), params, window)
    return Listing(rows, _count(transaction, level, condition, params))


def following(transaction: Transaction, level: Level[T], query: Query, last: T | None, limit: int) -> list[T]:
    """The rows behind this one, or the first of all."""
    order = ", ".join(level.order)
    behind = [] if last is None else [f"({order}) > ({', '.join(f':after_{name}' for name in level.order)})"]
    after = {f"after_{name}": getattr(last, name, None) for name in level.order} if last else {}
    params = {**structs.asdict(query), **after}
    return _rows(transaction, level, level.condition(query, *behind), order, params, Window(0, limit))


def workloads(transaction: Transaction, query: HoursQuery, window: Window) -> Listing[WorkloadHour]:
    """One page; the uid is the last key of every order."""
    condition, params = WORKLOAD.condition(query), structs.asdict(query)
    total = _count(transaction, WORKLOAD, condition, params) if query.name else _counted(transaction, query)
    order = WORKLOAD.order
    if query.order is HoursOrder.UTILIZATION:
        walk = not query.name and _is_near(transaction, query, window, total)
        condition = WORKLOAD.condition(query, WALKED) if walk else condition
        order = ("utilization" if walk else GATHERED, *order)
    elif window.offset and not query.name:
        query, window = _without_hours_before(transaction, query, window)
        params = structs.asdict(query)
    way = "DESC" if query.descending else "ASC"
    ordered = ", ".join(f"{key} {way}" for key in order)
    return Listing(_rows(transaction, WORKLOAD, condition, ordered, params, window), total)


def clusters(transaction: Transaction, from_at: int, to_at: int) -> list[str]:
    return _names(transaction, CLUSTERS, {"from_at": from_at, "to_at": to_at})


def namespaces(transaction: Transaction, query: HoursQuery) -> list[str]:
    return _names(transaction, NAMESPACES, structs.asdict(query))


def dimension_keys(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return _names(transaction, KEYS, structs.asdict(query))


def dimension_values(transaction: Transaction, query: DimensionQuery) -> list[str]:
    return _names(transaction, VALUES, structs.asdict(query))


def _names(transaction: Transaction, sql: str, params: Params) -> list[str]:
    return [row[0] for row in transaction.all(sql, params)]


def _rows(
    transaction: Transaction, level: Level[T], condition: str, order: str, params: Params, window: Window
) -> list[T]:
    names = level.hours.names[1:]
    found = transaction.all(
        f"SELECT {', '.join(names)} FROM {level.hours.table} {condition} ORDER BY {order} LIMIT :limit OFFSET :offset",
        {**params, "limit": window.limit, "offset": window.offset},
    )
    return [level.build(**_fields(names, row)) for row in found]


def _fields(names: tuple[str, ...], row: Row) -> dict[str, Any]:
    fields = dict(zip(names, row, strict=True))
    for name in ("labels", "annotations"):
        if name in fields:
            fields[name] = _map(fields[name])
    return fields


def _count(transaction: Transaction, level: Level[Any], condition: str, params: Params) -> int:
    row = transaction.one(f"SELECT COUNT(*) FROM {level.hours.table} {condition}", params)
    return row[0] if row else 0


def _pair(query: HoursQuery) -> Params:
    return {**structs.asdict(query), "namespace": query.namespace or EVERY, "kind": query.kind or EVERY}


def _counted(transaction: Transaction, query: HoursQuery) -> int:
    row = transaction.one(COUNTED, _pair(query))
    return row[0] if row else 0


def _is_near(transaction: Transaction, query: HoursQuery, window: Window, total: int) -> bool:
    """Whether a window lies nearer along the order of utilisation, past the rows of all hours, than it takes to gather
    the rows of the hours that are asked for."""
    passed = (window.offset + window.limit) * _counted(transaction, structs.replace(query, from_at=0, to_at=EVER))
    return passed <= FETCH * total * total


def _without_hours_before(transaction: Transaction, query: HoursQuery, window: Window) -> tuple[HoursQuery, Window]:
    """The same rows, without the hours that lie before the window as a whole: a late page is found as soon as an
    early one."""
    counts = transaction.all(COUNTS, _pair(query))
    left = window.offset
    for hour_at, number in reversed(counts) if query.descending else counts:
        if left < number:
            bound = {"to_at": hour_at} if query.descending else {"from_at": hour_at}
            return structs.replace(query, **bound), Window(left, window.limit)
        left -= number
    return query, Window(window.offset, 0)
