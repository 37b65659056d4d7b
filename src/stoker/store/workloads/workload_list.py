"""The list of workloads that there are, as their owners manage them, and their places in the queue."""

from collections.abc import Iterable

from msgspec import Struct, structs

from stoker.domain.inventory import Field, Operator
from stoker.domain.listing import Listing, Window, WorkloadQuery, WorkloadSort
from stoker.domain.workload import Workload
from stoker.store import clusters, workloads
from stoker.store.base import Row, Transaction
from stoker.store.inventory_asked import asked_for, count
from stoker.store.inventory_filters import Clause, Values, one_of, text
from stoker.store.inventory_pages import Pages
from stoker.store.keys import by_keys

SOURCE = """
FROM workload
JOIN cluster ON cluster.id = workload.cluster_id
LEFT JOIN workspace ON workspace.id = workload.workspace_id
"""
SELECT = f"SELECT {workloads.COLUMNS}, cluster.name, workspace.name"
BY_REF = f"{SELECT} {SOURCE} WHERE workload.uid = :ref OR workload.slug = :ref"
BY_UIDS = f"{SELECT} {SOURCE} WHERE workload.uid IN (:keys)"
NAMED = "SELECT id FROM workspace WHERE name = :name"
SORTS = {
    WorkloadSort.SUBMITTED: Field.CREATED,
    WorkloadSort.STARTED: Field.STARTED,
    WorkloadSort.ENDED: Field.ENDED,
    WorkloadSort.PRIORITY: Field.PRIORITY,
    WorkloadSort.NAME: Field.NAME,
    WorkloadSort.PHASE: Field.PHASE,
    WorkloadSort.RUNTIME: Field.RUNNING,
    WorkloadSort.GPU: Field.GPUS,
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
    """One page; what has not started or ended comes last whichever way a time is sorted.

    Phases go in the order in which they are asked for: whoever shows them knows the words that they are shown by.
    """
    asked = asked_for(transaction, now, _counts(transaction, query), _others(query))
    ranked = query.sort is WorkloadSort.PHASE and query.phases
    ranks: Values | None = {phase: rank for rank, phase in enumerate(query.phases)} if ranked else None
    pages = Pages(transaction, descending=query.descending, ranks=ranks)
    uids = pages.of(asked, SORTS[query.sort], window.offset, window.limit)
    found = {row[0]: _entry(row) for row in by_keys(transaction, BY_UIDS, uids)}
    return Listing([found[uid] for uid in uids], count(transaction, asked))


def _counts(transaction: Transaction, query: WorkloadQuery) -> list[Clause]:
    """What is asked of what workloads are counted by."""
    lists: dict[str, Iterable[object] | None] = {
        "workspace_id": query.workspace_ids,
        "phase": query.phases or None,
        "kind": query.kinds or None,
        "user_id": (query.user_id,) if query.user_id else None,
    }
    clauses = [one_of(column, values, column) for column, values in lists.items() if values is not None]
    if query.workspace:
        meant = [row[0] for row in transaction.all(NAMED, {"name": query.workspace})]
        clauses.append(one_of("workspace_id", meant, "workspace"))
    if query.cluster:
        cluster = clusters.find(transaction, query.cluster)
        clauses.append(one_of("cluster_id", (cluster.id,) if cluster else (), "cluster"))
    if query.user_text:
        clauses.append(text("user_name", Operator.CONTAINS, query.user_text, "user"))
    return clauses


def _others(query: WorkloadQuery) -> list[Clause]:
    clauses: list[Clause] = []
    if query.slug_text:
        clauses.append(structs.replace(text("slug", Operator.CONTAINS, query.slug_text, "slug"), scan=True))
    if query.description_text:
        described = text("folded_description", Operator.CONTAINS, query.description_text, "description")
        clauses.append(structs.replace(described, sql=f"({{}} <> '' AND {described.sql})", narrow=True))
    if query.since is not None:
        clauses.append(Clause("{} >= :since", {"since": query.since}, "submitted_at", narrow=True))
    if query.until is not None:
        clauses.append(Clause("{} <= :until", {"until": query.until}, "submitted_at", narrow=True))
    return clauses


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


def _entry(row: Row) -> Entry:
    width = len(workloads.COLUMNS.split(","))
    return Entry(workloads.build(row), row[width], row[width + 1] or "")
