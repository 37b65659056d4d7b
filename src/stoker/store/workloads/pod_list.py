"""Lists of pods across workloads, filtered and sorted in SQL; without a sort they are ordered by the primary key."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from stoker.domain.queries.filters import FilterOperator
from stoker.domain.queries.pages import PageRequest
from stoker.domain.queries.pod_query import PodField, PodFilter, PodQuery
from stoker.domain.workload.pod import Pod
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.comparison import COMPARISON_SQL
from stoker.store.sql.pagination import escape_like, like_substring, where_clause
from stoker.store.workloads import pods

SOURCE = """
FROM pod
CROSS JOIN workload
LEFT JOIN workspace ON workspace.id = workload.workspace_id
LEFT JOIN node ON node.cluster_id = pod.cluster_id AND node.name = pod.node
"""
POD_COLUMNS = ", ".join(f"pod.{column.strip()}" for column in pods.COLUMNS.split(","))
SELECT = f"""
SELECT {POD_COLUMNS}, pod.cluster_id, workload.name, workload.workspace_id, workspace.name, workload.priority,
       workload.spec, workload.kind, workload.deleted_at, COALESCE(node.pool, '')
"""
FILTER_COLUMNS: Mapping[PodField, str] = {
    PodField.CLUSTER_ID: "pod.cluster_id",
    PodField.WORKLOAD_UID: "pod.workload_uid",
    PodField.REVISION: "pod.revision",
    PodField.NODE: "pod.node",
    PodField.NODE_POOL: "COALESCE(node.pool, '')",
    PodField.CREATED_AT: "pod.created_at",
    PodField.ENDED_AT: "pod.ended_at",
    PodField.DELETED_AT: "workload.deleted_at",
}
SORT_COLUMNS = {**FILTER_COLUMNS, PodField.NODE: "pod.node_key"}
LIKE_PATTERNS = {
    FilterOperator.CONTAINS: ("LIKE", "%{}%"),
    FilterOperator.NOT_CONTAINS: ("NOT LIKE", "%{}%"),
    FilterOperator.STARTS_WITH: ("LIKE", "{}%"),
    FilterOperator.ENDS_WITH: ("LIKE", "%{}"),
}


class _SpecFields(Struct, frozen=True):
    """The fields of a workload's spec that a pod entry shows."""

    image: str = ""
    node_pools: tuple[str, ...] = ()


_spec_decoder = msgspec.json.Decoder(_SpecFields)


class PodEntry(Struct, frozen=True, kw_only=True):
    """A pod with its workload, workspace and cluster."""

    pod: Pod
    cluster_id: str
    workload: str
    kind: str
    workspace_id: int
    workspace: str
    priority: int
    image: str
    node_pools: tuple[str, ...]
    deleted_at: int | None
    pool: str
    """The pool of the node that the pod runs on."""


def list_pods(transaction: Transaction, query: PodQuery, page: PageRequest) -> list[PodEntry]:
    """One page. Rows without a value come last; rows with equal values are ordered by uid."""
    params: dict[str, object] = {"limit": page.limit, "offset": page.offset}
    condition = _condition(query, params)
    direction = "DESC" if query.descending else "ASC"
    first = f"{SORT_COLUMNS[query.sort]} {direction} NULLS LAST, " if query.sort else ""
    statement = f"{SELECT} {SOURCE} {condition} ORDER BY {first}pod.uid {direction} LIMIT :limit OFFSET :offset"
    return [_entry_from_row(row) for row in transaction.fetch_all(statement, params)]


def count(transaction: Transaction, query: PodQuery) -> int:
    params: dict[str, object] = {}
    row = transaction.fetch_one(f"SELECT COUNT(*) {SOURCE} {_condition(query, params)}", params)
    return row[0] if row else 0


def _condition(query: PodQuery, params: dict[str, object]) -> str:
    clauses = [
        "workload.uid = pod.workload_uid",
        _workspace_condition(query.workspace_ids, params),
    ]
    if query.deleted is not None:
        clauses.append("workload.deleted_at IS NOT NULL" if query.deleted else "workload.deleted_at IS NULL")
    if query.ended is not None:
        clauses.append("pod.ended_at IS NOT NULL" if query.ended else "pod.ended_at IS NULL")
    if query.workload_uid:
        params["workload_uid"] = query.workload_uid
        clauses.append("pod.workload_uid = :workload_uid")
    if query.search:
        params["search"] = like_substring(query.search)
        clauses.append("(LOWER(pod.name) LIKE :search ESCAPE '!' OR LOWER(pod.node) LIKE :search ESCAPE '!')")
    clauses += [_filter_condition(pod_filter, f"f{number}", params) for number, pod_filter in enumerate(query.filters)]
    return where_clause(*clauses)


def _workspace_condition(workspace_ids: tuple[int, ...] | None, params: dict[str, object]) -> str | None:
    if workspace_ids is None:
        return None
    if not workspace_ids:
        return "1 = 0"
    names = {f"w{number}": workspace_id for number, workspace_id in enumerate(workspace_ids)}
    params |= names
    return f"workload.workspace_id IN ({', '.join(':' + name for name in names)})"


def _filter_condition(condition: PodFilter, name: str, params: dict[str, object]) -> str:
    column, operator = FILTER_COLUMNS[condition.field], condition.operator
    if operator in COMPARISON_SQL:
        params[name] = condition.value
        clause = f"{column} {COMPARISON_SQL[operator]} :{name}"
        return f"({clause} OR {column} IS NULL)" if operator is FilterOperator.NOT_EQUAL else clause
    like, pattern = LIKE_PATTERNS[operator]
    params[name] = pattern.format(escape_like(str(condition.value)))
    return f"LOWER({column}) {like} :{name} ESCAPE '!'"


def _entry_from_row(row: Row) -> PodEntry:
    width = len(pods.COLUMNS.split(","))
    cluster_id, workload, workspace_id, workspace, priority, spec, kind, deleted_at, pool = row[width:]
    fields = _spec_decoder.decode(spec)
    return PodEntry(
        pod=pods.pod_from_row(row),
        cluster_id=cluster_id,
        workload=workload,
        kind=kind,
        workspace_id=workspace_id,
        workspace=workspace or "",
        priority=priority,
        image=fields.image,
        node_pools=fields.node_pools,
        deleted_at=deleted_at,
        pool=pool,
    )
