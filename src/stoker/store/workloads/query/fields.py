"""The columns and SQL expressions of workload fields.

Fields with few distinct values are group columns: the table `workload_count` has a count for each combination of them.
"""

from msgspec import Struct

from stoker.domain.queries.workload_query import WorkloadField

GROUP_COLUMNS = {
    WorkloadField.KIND: "kind",
    WorkloadField.CATEGORY: "kind",
    WorkloadField.FRAMEWORK: "kind",
    WorkloadField.PHASE: "phase",
    WorkloadField.CLUSTER_ID: "cluster_id",
    WorkloadField.WORKSPACE_ID: "workspace_id",
    WorkloadField.WORKSPACE: "workspace_id",
    WorkloadField.DEPARTMENT_ID: "workspace_id",
    WorkloadField.DEPARTMENT: "workspace_id",
    WorkloadField.PRIORITY: "priority",
    WorkloadField.PRIORITY_CLASS: "priority",
    WorkloadField.NODE_POOLS: "node_pools",
    WorkloadField.USER_NAME: "user_name",
    WorkloadField.USER_ID: "user_id",
    WorkloadField.NAMESPACE: "namespace",
}
"""The group column of each field. Fields that share a column are derived from its values."""
COLUMN_VALUE_FIELDS = frozenset(
    {
        WorkloadField.KIND,
        WorkloadField.PHASE,
        WorkloadField.CLUSTER_ID,
        WorkloadField.USER_ID,
        WorkloadField.USER_NAME,
        WorkloadField.NAMESPACE,
        WorkloadField.PRIORITY,
    }
)
"""Fields whose values are the values of their group columns."""
WORKSPACE_EXPR = {
    WorkloadField.WORKSPACE_ID: "CAST(workspace_id AS TEXT)",
    WorkloadField.WORKSPACE: "workspace.name",
    WorkloadField.DEPARTMENT_ID: "CAST(workspace.department_id AS TEXT)",
    WorkloadField.DEPARTMENT: "department.name",
}
WORKLOAD_WORKSPACE_EXPR = {
    WorkloadField.WORKSPACE_ID: "CAST(workload.workspace_id AS TEXT)",
    WorkloadField.WORKSPACE: "COALESCE(workspace.name, '')",
    WorkloadField.DEPARTMENT_ID: "COALESCE(CAST(workspace.department_id AS TEXT), '0')",
    WorkloadField.DEPARTMENT: "COALESCE(department.name, '')",
}
"""The same fields in a query of workloads that has `WORKSPACE_JOIN`."""
WORKSPACE_JOIN = """
LEFT JOIN workspace ON workspace.id = workload.workspace_id
LEFT JOIN department ON department.id = workspace.department_id
"""
FIELDS_WITHOUT_VALUE = frozenset({WorkloadField.APPLICATION_ID, WorkloadField.APPLICATION})
"""Fields of the Run:ai API that no workload has a value for."""
NUMERIC_COLUMNS = frozenset(
    {
        "workspace_id",
        "priority",
        "submitted_at",
        "started_at",
        "ended_at",
        "phase_at",
        "deleted_at",
        "guaranteed_until",
    }
)

NOT_DELETED = "workload.deleted_at IS NULL"
DELETING = "workload.phase = 'Deleting'"
DELETED = "workload.deleted_at IS NOT NULL AND workload.phase <> 'Deleting'"
GROUP_SOURCE = """
(
    SELECT DISTINCT cluster_id, namespace, kind, phase, user_id, priority, node_pools
    FROM workload_count
    WHERE {condition}
) AS workload_group
CROSS JOIN workload
"""  # index workload_by_namespace
GROUP_JOIN = """
workload.cluster_id = workload_group.cluster_id
  AND workload.namespace = workload_group.namespace
  AND workload.kind = workload_group.kind
  AND workload.phase = workload_group.phase
  AND workload.user_id = workload_group.user_id
  AND workload.priority = workload_group.priority
  AND workload.node_pools = workload_group.node_pools
"""
REQUESTED_GPUS_EXPR = "(workload.gpu_milli * workload.replicas)"
TIMESTAMP_COLUMNS = {
    WorkloadField.CREATED_AT: "submitted_at",
    WorkloadField.STARTED_AT: "started_at",
    WorkloadField.ENDED_AT: "ended_at",
    WorkloadField.PHASE_AT: "phase_at",
    WorkloadField.DELETED_AT: "deleted_at",
    WorkloadField.GUARANTEED_UNTIL: "guaranteed_until",
}
DESCRIPTION_COLUMN = "search_description"
SORT_COLUMNS = {
    **TIMESTAMP_COLUMNS,
    WorkloadField.NAME: "name",
    WorkloadField.SLUG: "slug",
    WorkloadField.DESCRIPTION: DESCRIPTION_COLUMN,
}
"""Fields that are sorted by a column of their own, which is not a group column."""
NAME_INDEX_COLUMNS = frozenset({"name", "slug"})
"""Text columns that the index of names covers."""


class AllocationExpr(Struct, frozen=True):
    """An expression over the allocation of a workload: for any workload, and where `workload_allocation` is joined."""

    sql: str
    joined_sql: str


ALLOCATED_MILLI = AllocationExpr(
    "COALESCE((SELECT allocated_milli FROM workload_allocation WHERE workload_uid = workload.uid), 0)",
    "workload_allocation.allocated_milli",
)
IDLE_MILLI = AllocationExpr(
    "COALESCE((SELECT idle_milli FROM workload_allocation WHERE workload_uid = workload.uid), 0)",
    "workload_allocation.idle_milli",
)
HAS_ALLOCATION = AllocationExpr("EXISTS (SELECT 1 FROM workload_allocation WHERE workload_uid = workload.uid)", "1 = 1")
HAS_IDLE_ALLOCATION = AllocationExpr(
    "EXISTS (SELECT 1 FROM workload_allocation WHERE workload_uid = workload.uid AND idle_milli > 0)",
    "workload_allocation.idle_milli > 0",
)
ALLOCATION_SORTS = {
    WorkloadField.ALLOCATED_GPUS: ALLOCATED_MILLI,
    WorkloadField.IDLE_ALLOCATED_GPUS: IDLE_MILLI,
    WorkloadField.IDLE_GPUS: IDLE_MILLI,
}


class AccruedTime(Struct, frozen=True):
    """A duration that accumulates while a workload is in a state. Workloads outside the state have an index on the
    accrued time, workloads in it one on the start they would have without interruptions."""

    stopped: str
    accrued: str
    running: str
    virtual_start: str

    @property
    def current(self) -> str:
        """The duration in milliseconds, for any workload."""
        return f"(CASE WHEN {self.running} THEN :now - {self.virtual_start} ELSE {self.accrued} END)"

    def range_conditions(self, lower: str | None, upper: str | None) -> tuple[str, str]:
        """The conditions for stopped and for running workloads that `lower <= duration < upper`."""
        stopped = [self.stopped, *([f"{self.accrued} >= {lower}"] if lower else [])]
        stopped += [f"{self.accrued} < {upper}"] if upper else []
        running = [self.running, *([f"{self.virtual_start} <= :now - {lower}"] if lower else [])]
        running += [f"{self.virtual_start} > :now - {upper}"] if upper else []
        return " AND ".join(stopped), " AND ".join(running)


ACCRUED_TIMES = {
    WorkloadField.RUNNING_SECONDS: AccruedTime(
        "workload.running_since IS NULL",
        "workload.running_ms",
        "workload.running_since IS NOT NULL",
        "(workload.running_since - workload.running_ms)",
    ),
    WorkloadField.PENDING_SECONDS: AccruedTime(
        "workload.phase NOT IN ('Pending', 'Resuming', 'Submitted')",
        "workload.pending_ms",
        "workload.phase IN ('Pending', 'Resuming', 'Submitted')",
        "(workload.phase_at - workload.pending_ms)",
    ),
}


def defeat_index(column: str) -> str:
    """A column of workloads as an expression that no index matches."""
    return f"(workload.{column} + 0)" if column in NUMERIC_COLUMNS else f"(workload.{column} || '')"
