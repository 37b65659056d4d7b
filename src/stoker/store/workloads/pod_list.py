"""Lists of pods over all workloads: filters and sorts in SQL, walked along the pods' own key unless asked otherwise."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from stoker.domain.listing import PodFilter, PodQuery, Window
from stoker.domain.workload import Kind, Pod
from stoker.store import pods
from stoker.store.base import Row, Transaction
from stoker.store.listing import where

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
FIELDS: Mapping[str, str] = {
    "cluster": "pod.cluster_id",
    "workload": "pod.workload_uid",
    "revision": "pod.revision",
    "node": "pod.node",
    "pool": "COALESCE(node.pool, '')",
    "created_at": "pod.created_at",
    "ended_at": "pod.ended_at",
    "deleted_at": "workload.deleted_at",
}
COMPARED = {"==": "=", "!=": "<>", "<=": "<=", ">=": ">="}
PATTERNS = {"=@": ("LIKE", "%{}%"), "!@": ("NOT LIKE", "%{}%"), "=^": ("LIKE", "{}%"), "=$": ("LIKE", "%{}")}


class _Asked(Struct, frozen=True):
    """What of a workload's spec a pod shows."""

    image: str = ""
    node_pools: tuple[str, ...] = ()


_asked = msgspec.json.Decoder(_Asked)


class PodEntry(Struct, frozen=True, kw_only=True):
    """A pod with what it belongs to."""

    pod: Pod
    cluster_id: str
    workload: str
    kind: Kind
    workspace_id: int
    workspace: str
    priority: int
    image: str
    node_pools: tuple[str, ...]
    deleted_at: int | None
    pool: str
    """Of the node that it is on."""


def browse(transaction: Transaction, query: PodQuery, window: Window) -> list[PodEntry]:
    """One page. What has no value comes last; what is alike goes by uid."""
    params: dict[str, object] = {"limit": window.limit, "offset": window.offset}
    condition = _condition(query, params)
    direction = "DESC" if query.descending else "ASC"
    first = f"{FIELDS[query.sort]} {direction} NULLS LAST, " if query.sort else ""
    statement = f"{SELECT} {SOURCE} {condition} ORDER BY {first}pod.uid {direction} LIMIT :limit OFFSET :offset"
    return [_entry(row) for row in transaction.all(statement, params)]


def count(transaction: Transaction, query: PodQuery) -> int:
    params: dict[str, object] = {}
    row = transaction.one(f"SELECT COUNT(*) {SOURCE} {_condition(query, params)}", params)
    return row[0] if row else 0


def _condition(query: PodQuery, params: dict[str, object]) -> str:
    clauses = [
        "workload.uid = pod.workload_uid",
        _in_workspaces(query.workspace_ids, params),
    ]
    if query.deleted is not None:
        clauses.append("workload.deleted_at IS NOT NULL" if query.deleted else "workload.deleted_at IS NULL")
    if query.ended is not None:
        clauses.append("pod.ended_at IS NOT NULL" if query.ended else "pod.ended_at IS NULL")
    if query.workload_uid:
        params["workload_uid"] = query.workload_uid
        clauses.append("pod.workload_uid = :workload_uid")
    if query.search:
        params["search"] = f"%{_escaped(query.search)}%"
        clauses.append("(LOWER(pod.name) LIKE :search ESCAPE '!' OR LOWER(pod.node) LIKE :search ESCAPE '!')")
    clauses += [_filter(each, f"f{number}", params) for number, each in enumerate(query.filters)]
    return where(*clauses)


def _in_workspaces(workspace_ids: tuple[int, ...] | None, params: dict[str, object]) -> str | None:
    if workspace_ids is None:
        return None
    if not workspace_ids:
        return "1 = 0"
    names = {f"w{number}": each for number, each in enumerate(workspace_ids)}
    params |= names
    return f"workload.workspace_id IN ({', '.join(':' + name for name in names)})"


def _filter(asked: PodFilter, name: str, params: dict[str, object]) -> str:
    column = FIELDS[asked.field]
    if asked.operator in COMPARED:
        params[name] = asked.value
        clause = f"{column} {COMPARED[asked.operator]} :{name}"
        return f"({clause} OR {column} IS NULL)" if asked.operator == "!=" else clause
    word, pattern = PATTERNS[asked.operator]
    params[name] = pattern.format(_escaped(str(asked.value)))
    return f"LOWER({column}) {word} :{name} ESCAPE '!'"


def _escaped(text: str) -> str:
    return text.casefold().replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _entry(row: Row) -> PodEntry:
    width = len(pods.COLUMNS.split(","))
    cluster_id, workload, workspace_id, workspace, priority, spec, kind, deleted_at, pool = row[width:]
    asked = _asked.decode(spec)
    return PodEntry(
        pod=pods.build(row),
        cluster_id=cluster_id,
        workload=workload,
        kind=Kind(kind),
        workspace_id=workspace_id,
        workspace=workspace or "",
        priority=priority,
        image=asked.image,
        node_pools=asked.node_pools,
        deleted_at=deleted_at,
        pool=pool,
    )
