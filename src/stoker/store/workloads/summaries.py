"""Workload records with conditions, allocation and names, read in a few statements per page."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stoker.domain.queries.workload_records import AllocationSummary, WorkloadRecord
from stoker.domain.workload.phase import Condition, ConditionType
from stoker.store.db.base import Transaction
from stoker.store.sql.select_in import select_in
from stoker.store.workloads import rows

POD_TOTALS = """
SELECT workload_uid, COUNT(*), SUM(CASE WHEN phase = 'Running' THEN 1 ELSE 0 END), SUM(cpu_milli), SUM(memory_bytes)
FROM pod
WHERE workload_uid IN (:keys)
  AND released_at IS NULL
GROUP BY workload_uid
"""
ALLOCATIONS = "SELECT workload_uid, allocated_milli, idle_milli FROM workload_allocation WHERE workload_uid IN (:keys)"
CONDITIONS = """
SELECT workload_uid, type, reason, message, at
FROM workload_condition
WHERE workload_uid IN (:keys)
ORDER BY workload_uid, version, position
"""
WORKSPACES = """
SELECT workspace.id, workspace.name, department.id, department.name
FROM workspace
JOIN department ON department.id = workspace.department_id
WHERE workspace.id IN (:keys)
"""
IDLE_OF_CLUSTER = """
SELECT workload_uid, idle_milli
FROM workload_allocation
WHERE cluster_id = :cluster_id
  AND idle_milli > 0
"""
SET_IDLE = """
UPDATE workload_allocation
SET idle_milli = :idle_milli
WHERE workload_uid = :uid
"""
ALLOCATION_SPANS = """
SELECT gpu_milli, from_at, to_at
FROM allocation
WHERE workload_uid = :uid
ORDER BY from_at
"""


class AllocationSpan(Struct, frozen=True):
    gpu_milli: int
    from_at: int
    to_at: int | None


class WorkspaceNames(Struct, frozen=True):
    workspace: str = ""
    department_id: int = 0
    department: str = ""


def read_summaries(transaction: Transaction, uids: Sequence[str]) -> list[WorkloadRecord]:
    """The projection of a page, in the order of the uids; uids that do not exist are left out."""
    workloads = rows.by_uid(transaction, uids)
    names_by_workspace = {
        row[0]: WorkspaceNames(*row[1:])
        for row in select_in(transaction, WORKSPACES, {workload.workspace_id for workload in workloads.values()})
    }
    conditions = conditions_by_workload(transaction, uids)
    allocations = allocations_by_workload(transaction, uids)
    records: list[WorkloadRecord] = []
    for uid in uids:
        if (workload := workloads.get(uid)) is None:
            continue
        names = names_by_workspace.get(workload.workspace_id, WorkspaceNames())
        records.append(
            WorkloadRecord(
                workload,
                names.workspace,
                names.department_id,
                names.department,
                conditions.get(uid, ()),
                allocations.get(uid, AllocationSummary()),
            )
        )
    return records


def conditions_by_workload(transaction: Transaction, uids: Sequence[str]) -> dict[str, list[Condition]]:
    """The conditions of each workload, oldest first."""
    conditions: dict[str, list[Condition]] = defaultdict(list)
    for uid, kind, reason, message, at in select_in(transaction, CONDITIONS, dict.fromkeys(uids)):
        conditions[uid].append(Condition(ConditionType(kind), reason, message, at))
    return conditions


def allocations_by_workload(transaction: Transaction, uids: Sequence[str]) -> dict[str, AllocationSummary]:
    allocations = {
        row[0]: AllocationSummary(row[1], int(row[2]), 0, int(row[3]), int(row[4]))
        for row in select_in(transaction, POD_TOTALS, uids)
    }
    for uid, allocated, idle in select_in(transaction, ALLOCATIONS, uids):
        summary = allocations.get(uid, AllocationSummary())
        allocations[uid] = structs.replace(summary, gpu_milli=allocated, idle_milli=idle)
    return allocations


def set_idle_gpus(transaction: Transaction, cluster_id: str, idle_milli: Mapping[str, int]) -> None:
    """Stores the idle milli-GPUs of the workloads of a cluster; workloads not given have none."""
    before = dict(transaction.fetch_all(IDLE_OF_CLUSTER, {"cluster_id": cluster_id}))
    now = {uid: idle_milli.get(uid, 0) for uid in before.keys() | idle_milli.keys()}
    changed = [{"uid": uid, "idle_milli": idle} for uid, idle in now.items() if idle != before.get(uid, 0)]
    transaction.execute_many(SET_IDLE, changed)


def allocation_spans(transaction: Transaction, uid: str) -> list[AllocationSpan]:
    """Every GPU allocation of a workload, oldest first."""
    return [AllocationSpan(*row) for row in transaction.fetch_all(ALLOCATION_SPANS, {"uid": uid})]
