"""Lists of workloads: filters, sorts and totals, all in SQL."""

from msgspec import Struct

from stoker.domain.listing import Listing, Window, WorkloadQuery, WorkloadSort
from stoker.domain.workload import Workload
from stoker.store import workloads
from stoker.store.base import Row, Transaction
from stoker.store.listing import page, substring, where

SOURCE = """
FROM workload
JOIN cluster ON cluster.id = workload.cluster_id
LEFT JOIN workspace ON workspace.id = workload.workspace_id
"""
SELECT = f"SELECT {workloads.COLUMNS}, cluster.name, workspace.name"
BY_REF = f"{SELECT} {SOURCE} WHERE workload.uid = :ref OR workload.slug = :ref"
RUNTIME = "workload.ran_ms + COALESCE(:now - workload.running_since, 0)"
SORTS = {
    WorkloadSort.SUBMITTED: "workload.submitted_at",
    WorkloadSort.STARTED: "workload.started_at",
    WorkloadSort.ENDED: "workload.ended_at",
    WorkloadSort.PRIORITY: "workload.priority",
    WorkloadSort.NAME: "workload.name",
    WorkloadSort.PHASE: "workload.phase",
    WorkloadSort.RUNTIME: RUNTIME,
    WorkloadSort.GPU: "workload.gpu_milli * workload.replicas",
}
QUEUE_PLACES = """
SELECT uid, place
FROM (
    SELECT uid, ROW_NUMBER() OVER (
        PARTITION BY workspace_id
        ORDER BY requeued DESC, priority DESC, submitted_at, uid
    ) AS place
    FROM workload
    WHERE phase IN ('Pending', 'Resuming')
      AND workspace_id = :workspace_id
) AS queue
"""
AHEAD = """
SELECT COUNT(*)
FROM workload
WHERE phase IN ('Pending', 'Resuming')
  AND workspace_id = :workspace_id
  AND (requeued = 1 OR priority >= :priority)
"""


class Entry(Struct, frozen=True):
    """A workload with the names of where it is."""

    workload: Workload
    cluster: str
    workspace: str


def find(transaction: Transaction, ref: str) -> Entry | None:
    row = transaction.one(BY_REF, {"ref": ref})
    return _entry(row) if row else None


def browse(transaction: Transaction, query: WorkloadQuery, window: Window, now: int) -> Listing[Entry]:
    """One page; what has not started or ended comes last whichever way a time is sorted."""
    params: dict[str, object] = {
        "workspace": query.workspace,
        "cluster": query.cluster,
        "user_id": query.user_id,
        "user": substring(query.user_text),
        "description": substring(query.description_text),
        "slug": substring(query.slug_text),
        "since": query.since,
        "until": query.until,
        "now": now,
    }
    direction = "DESC" if query.descending else "ASC"
    return page(
        transaction,
        _entry,
        select=SELECT,
        source=SOURCE,
        condition=where(
            "workload.deleted_at IS NULL",
            _one_of("workload.workspace_id", query.workspace_ids, params),
            _one_of("workload.phase", query.phases or None, params),
            _one_of("workload.kind", query.kinds or None, params),
            "workspace.name = :workspace" if query.workspace else None,
            "(cluster.name = :cluster OR cluster.id = :cluster)" if query.cluster else None,
            "workload.user_id = :user_id" if query.user_id else None,
            "workload.folded_user LIKE :user ESCAPE '!'" if query.user_text else None,
            "workload.folded_description LIKE :description ESCAPE '!'" if query.description_text else None,
            "workload.slug LIKE :slug ESCAPE '!'" if query.slug_text else None,
            "workload.submitted_at >= :since" if query.since is not None else None,
            "workload.submitted_at <= :until" if query.until is not None else None,
        ),
        order=f"{_sorted_by(query)} {direction} NULLS LAST, workload.uid {direction}",
        params=params,
        window=window,
    )


def queue_places(transaction: Transaction, workspace_ids: set[int]) -> dict[str, int]:
    """The 1-based place of everything that waits in these workspaces."""
    return {
        row[0]: row[1]
        for workspace_id in sorted(workspace_ids)
        for row in transaction.all(QUEUE_PLACES, {"workspace_id": workspace_id})
    }


def ahead_of(transaction: Transaction, workspace_id: int, priority: int) -> int:
    """How many that wait would be served before a new workload of this priority."""
    row = transaction.one(AHEAD, {"workspace_id": workspace_id, "priority": priority})
    return row[0] if row else 0


def _sorted_by(query: WorkloadQuery) -> str:
    """Phases go in the order in which they are asked for: whoever shows them knows the words that they are shown by."""
    if query.sort is not WorkloadSort.PHASE or not query.phases:
        return SORTS[query.sort]
    ranks = " ".join(f"WHEN '{phase}' THEN {rank}" for rank, phase in enumerate(query.phases))
    return f"CASE workload.phase {ranks} END"


def _one_of(column: str, values: tuple[object, ...] | None, params: dict[str, object]) -> str | None:
    """`column IN (…)` with a parameter for each value; nothing is in an empty list."""
    if values is None:
        return None
    if not values:
        return "1 = 0"
    names = [f"{column.partition('.')[2]}_{number}" for number in range(len(values))]
    params |= dict(zip(names, values, strict=True))
    return f"{column} IN ({', '.join(':' + name for name in names)})"


def _entry(row: Row) -> Entry:
    width = len(workloads.COLUMNS.split(","))
    return Entry(workloads.build(row), row[width], row[width + 1] or "")
