"""Workloads with the names of their cluster and workspace, and their positions in the queue."""

from collections.abc import Collection, Sequence

from msgspec import Struct

from stoker.domain.workload.model import Workload
from stoker.store.db.base import Row, Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.workloads import rows

SOURCE = """
FROM workload
JOIN cluster ON cluster.id = workload.cluster_id
LEFT JOIN workspace ON workspace.id = workload.workspace_id
"""
SELECT = f"SELECT {rows.COLUMNS}, cluster.name, workspace.name"
BY_REF = f"{SELECT} {SOURCE} WHERE workload.uid = :ref OR workload.slug = :ref"
BY_UIDS = f"{SELECT} {SOURCE} WHERE workload.uid IN (:keys)"
PENDING_IN_WORKSPACE = """
FROM workspace
JOIN workload ON workload.cluster_id = workspace.cluster_id AND workload.workspace_id = workspace.id
WHERE workspace.id = :workspace_id
  AND workload.ended_at IS NULL
  AND (workload.phase IN ('Pending', 'Resuming') OR workload.pending_reason <> '')
"""
"""Pending in a workspace: queued workloads, and running ones with pending replicas."""
IS_REQUEUED = "(workload.requeued = 1 OR workload.phase NOT IN ('Pending', 'Resuming'))"
QUEUE_RANK = f"""
CASE
    WHEN workload.reserved_nodes <> '' THEN 0
    WHEN {IS_REQUEUED} AND NOT (workload.preemptible = 1 AND workspace.preemption = 1) THEN 1
    ELSE 2
END
"""
"""The same order as the scheduler's: `PendingQueue.sort_key_of` in `stoker.scheduler`."""
QUEUE_POSITIONS = f"""
SELECT uid, place
FROM (
    SELECT workload.uid, workload.phase, ROW_NUMBER() OVER (
        ORDER BY {QUEUE_RANK}, workload.priority DESC, {IS_REQUEUED} DESC, workload.submitted_at, workload.uid
    ) AS place
    {PENDING_IN_WORKSPACE}
) AS queue
WHERE phase IN ('Pending', 'Resuming')
  AND uid IN (:keys)
"""
COUNT_AHEAD = f"SELECT COUNT(*) {PENDING_IN_WORKSPACE} AND ({QUEUE_RANK} < 2 OR workload.priority >= :priority)"


class WorkloadEntry(Struct, frozen=True):
    """A workload with the names of its cluster and workspace."""

    workload: Workload
    cluster: str
    workspace: str


def find(transaction: Transaction, ref: str) -> WorkloadEntry | None:
    """The workload of this uid or slug, deleted or not."""
    row = transaction.fetch_one(BY_REF, {"ref": ref})
    return _entry_from_row(row) if row else None


def read_entries(transaction: Transaction, uids: Sequence[str]) -> list[WorkloadEntry]:
    """The projection of a page, in the order of the uids."""
    entries = {row[0]: _entry_from_row(row) for row in select_in(transaction, BY_UIDS, uids)}
    return [entries[uid] for uid in uids]


def queue_positions(transaction: Transaction, workspace_id: int, uids: Collection[str]) -> dict[str, int]:
    """The 1-based queue position of each of these workloads that is queued in the workspace."""
    return dict(select_in(transaction, QUEUE_POSITIONS, uids, {"workspace_id": workspace_id}))


def count_ahead(transaction: Transaction, workspace_id: int, priority: int) -> int:
    """How many pending workloads the scheduler would start before a new one of this priority."""
    row = transaction.fetch_one(COUNT_AHEAD, {"workspace_id": workspace_id, "priority": priority})
    return row[0] if row else 0


def _entry_from_row(row: Row) -> WorkloadEntry:
    width = len(rows.COLUMNS.split(","))
    return WorkloadEntry(rows.workload_from_row(row), row[width], row[width + 1] or "")
