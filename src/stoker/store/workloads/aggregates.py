"""Counts of workloads and sums of their GPUs, by group.

Counts come from `workload_count`; only workloads that hold GPUs or are pending are read one by one.
"""

from collections.abc import Sequence

from msgspec import Struct

from stoker.domain.cluster.resources import Resources
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.predicates import Predicate, in_list

GROUP_COLUMNS = ("cluster_id", "workspace_id", "kind", "phase", "node_pools")
WORKLOAD_COUNTS = """
SELECT {columns}, SUM(workloads)
FROM workload_count
WHERE visibility < 2 AND {condition}
GROUP BY {columns}
HAVING SUM(workloads) > 0
"""
ALLOCATED_GPUS = """
SELECT {columns}, SUM(workload_allocation.allocated_milli)
FROM workload_allocation
CROSS JOIN workload
WHERE workload.uid = workload_allocation.workload_uid AND {condition}
GROUP BY {columns}
"""
PENDING_BY_WAIT = """
SELECT {columns}, bucket, COUNT(*)
FROM (
    SELECT {columns}, CASE {cases} ELSE {last} END AS bucket
    FROM workload
    WHERE workload.deleted_at IS NULL AND workload.phase = 'Pending' AND {condition}
) AS waiting
GROUP BY {columns}, bucket
"""  # index workload_by_phase
WORKLOADS_BY_PHASE = """
SELECT cluster_id, phase, SUM(workloads)
FROM workload_count
WHERE visibility = 0
GROUP BY cluster_id, phase
HAVING SUM(workloads) > 0
ORDER BY cluster_id, phase
"""
PENDING_BY_QUEUE = """
SELECT workload.cluster_id, COALESCE(workspace.name, ''), COUNT(*), SUM(workload.gpu_milli * workload.replicas)
FROM workload
LEFT JOIN workspace ON workspace.id = workload.workspace_id
WHERE workload.phase IN ('Pending', 'Resuming')
GROUP BY workload.cluster_id, workspace.name
ORDER BY workload.cluster_id, workspace.name
"""  # index workload_pending
ALLOCATED_BY_WORKSPACE = """
SELECT workload.workspace_id, COUNT(*), SUM(pod.gpu_milli), SUM(pod.cpu_milli), SUM(pod.memory_bytes)
FROM pod
JOIN workload ON workload.uid = pod.workload_uid
WHERE pod.released_at IS NULL
GROUP BY workload.workspace_id
"""  # index pod_unreleased


class AggregateQuery(Struct, frozen=True):
    """An empty text means all, and so does None for `workspace_ids` and `phases`."""

    cluster_id: str = ""
    pool: str = ""
    workspace_ids: tuple[int, ...] | None = None
    phases: tuple[str, ...] | None = None


class AggregateRow(Struct, frozen=True):
    """`bucket` is the index of the first wait limit above the pending time."""

    cluster_id: str
    workspace_id: int
    kind: str
    phase: str
    pools: str
    bucket: int
    amount: int


class PhaseCount(Struct, frozen=True):
    cluster_id: str
    phase: str
    workloads: int


class QueueBacklog(Struct, frozen=True):
    """The pending workloads of a workspace, and the GPUs that they request together."""

    cluster_id: str
    workspace: str
    workloads: int
    gpu_milli: int


class WorkspaceAllocation(Struct, frozen=True):
    """The number of unreleased pods of a workspace, and their resources."""

    pods: int
    resources: Resources


def workload_counts(transaction: Transaction, query: AggregateQuery) -> list[AggregateRow]:
    """The number of workloads by group."""
    return _fetch_rows(transaction, WORKLOAD_COUNTS, query, "workload_count")


def allocated_gpus(transaction: Transaction, query: AggregateQuery) -> list[AggregateRow]:
    """The allocated milli-GPUs by group."""
    return _fetch_rows(transaction, ALLOCATED_GPUS, query, "workload")


def pending_by_wait(
    transaction: Transaction, query: AggregateQuery, now: int, limits_ms: Sequence[int]
) -> list[AggregateRow]:
    """The number of pending workloads by group and wait bucket; the last bucket has no upper limit."""
    cases = " ".join(f"WHEN :now - workload.phase_at < {limit} THEN {place}" for place, limit in enumerate(limits_ms))
    sql = PENDING_BY_WAIT.replace("{cases}", cases).replace("{last}", str(len(limits_ms)))
    condition, params = _condition(query, "workload")
    rows = transaction.fetch_all(
        sql.format(columns=", ".join(GROUP_COLUMNS), condition=condition), {**params, "now": now}
    )
    return [AggregateRow(*row[:6], amount=int(row[6])) for row in rows]


def allocated_by_workspace(transaction: Transaction) -> dict[int, WorkspaceAllocation]:
    """The allocation of each workspace id."""
    rows = transaction.fetch_all(ALLOCATED_BY_WORKSPACE)
    return {row[0]: WorkspaceAllocation(row[1], Resources(int(row[2]), int(row[3]), int(row[4]))) for row in rows}


def workloads_by_phase(transaction: Transaction) -> tuple[PhaseCount, ...]:
    return tuple(
        PhaseCount(cluster, phase, int(count)) for cluster, phase, count in transaction.fetch_all(WORKLOADS_BY_PHASE)
    )


def pending_by_queue(transaction: Transaction) -> tuple[QueueBacklog, ...]:
    rows = transaction.fetch_all(PENDING_BY_QUEUE)
    return tuple(QueueBacklog(cluster, workspace, count, int(milli)) for cluster, workspace, count, milli in rows)


def _fetch_rows(transaction: Transaction, sql: str, query: AggregateQuery, table: str) -> list[AggregateRow]:
    condition, params = _condition(query, table)
    columns = ", ".join(f"{table}.{column}" for column in GROUP_COLUMNS)
    rows = transaction.fetch_all(sql.format(columns=columns, condition=condition), params)
    return [AggregateRow(*row[:5], bucket=0, amount=int(row[5])) for row in rows]


def _condition(query: AggregateQuery, table: str) -> tuple[str, dict[str, object]]:
    predicates: list[Predicate] = []
    if query.cluster_id:
        predicates.append(Predicate("{} = :cluster_id", {"cluster_id": query.cluster_id}, "cluster_id"))
    if query.pool:
        in_pool = "(',' || {} || ',') LIKE :pool ESCAPE '!'"
        predicates.append(Predicate(in_pool, {"pool": f"%,{_escape_like(query.pool)},%"}, "node_pools"))
    if query.workspace_ids is not None:
        predicates.append(in_list("workspace_id", query.workspace_ids, "workspace"))
    if query.phases is not None:
        predicates.append(in_list("phase", query.phases, "phase"))
    params = {name: value for predicate in predicates for name, value in predicate.params.items()}
    return " AND ".join(predicate.on_table(table) for predicate in predicates) or "1 = 1", params


def _escape_like(text: str) -> str:
    """Pool names keep their case, unlike the texts of `escape_like`."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
