"""One query for every list of workloads: filters, free text, an order, and the scope of the caller.

The families and services only build this query; `stoker.store.workloads.query` plans and executes it.
"""

from enum import StrEnum

from msgspec import Struct

from stoker.domain.queries.filters import FilterOperator, FilterValue
from stoker.domain.workload.spec import Kind

PRIORITY_CLASSES = {
    "very-low": 25,
    "low": 40,
    "medium-low": 65,
    "medium": 80,
    "medium-high": 90,
    "high": 125,
    "very-high": 150,
}
"""The lowest priority of each class."""
FRAMEWORK_BY_KIND: dict[str, str] = {Kind.PYTORCH_JOB: "Pytorch"}
"""The distributed framework of the kinds that have one."""


class WorkloadField(StrEnum):
    """The fields that workloads are filtered and sorted by."""

    KIND = "kind"
    NAME = "name"
    SLUG = "slug"
    DESCRIPTION = "description"
    NAMESPACE = "namespace"
    CLUSTER_ID = "cluster_id"
    WORKSPACE_ID = "workspace_id"
    WORKSPACE = "workspace"
    DEPARTMENT_ID = "department_id"
    DEPARTMENT = "department"
    CREATED_AT = "created_at"
    STARTED_AT = "started_at"
    DELETED_AT = "deleted_at"
    USER_ID = "user_id"
    USER_NAME = "user_name"
    PHASE = "phase"
    ENDED_AT = "ended_at"
    NODE_POOLS = "pools"
    FRAMEWORK = "framework"
    GPUS = "gpus"
    ALLOCATED_GPUS = "allocated_gpus"
    IDLE_GPUS = "idle_gpus"
    IDLE_ALLOCATED_GPUS = "idle_allocated_gpus"
    PHASE_AT = "phase_at"
    CATEGORY = "category"
    PRIORITY = "priority"
    PENDING_SECONDS = "pending_seconds"
    RUNNING_SECONDS = "running_seconds"
    PRIORITY_CLASS = "priority_class"
    GUARANTEED_UNTIL = "guaranteed_until"
    APPLICATION_ID = "application_id"
    APPLICATION = "application"


TIME_FIELDS = frozenset(
    {
        WorkloadField.CREATED_AT,
        WorkloadField.STARTED_AT,
        WorkloadField.DELETED_AT,
        WorkloadField.ENDED_AT,
        WorkloadField.PHASE_AT,
        WorkloadField.GUARANTEED_UNTIL,
    }
)
NUMERIC_FIELDS = frozenset(
    {
        WorkloadField.GPUS,
        WorkloadField.ALLOCATED_GPUS,
        WorkloadField.IDLE_GPUS,
        WorkloadField.IDLE_ALLOCATED_GPUS,
        WorkloadField.PRIORITY,
        WorkloadField.PENDING_SECONDS,
        WorkloadField.RUNNING_SECONDS,
    },
)


class WorkloadFilter(Struct, frozen=True):
    """A field compared with a value, or with several when the operator is `IN`. Times are epoch milliseconds."""

    field: WorkloadField
    operator: FilterOperator
    value: FilterValue | tuple[FilterValue, ...]


class WorkloadSort(Struct, frozen=True):
    """The order of a list. `value_order` ranks the values of the field when their own order is not wanted."""

    field: WorkloadField = WorkloadField.CREATED_AT
    descending: bool = False
    value_order: tuple[str, ...] = ()


class WorkloadScope(Struct, frozen=True, kw_only=True):
    """The workloads that a query can return at all.

    `workspace_ids` are the workspaces that the caller may see, None for all; `cluster` is a name or an id, empty for
    all clusters. `deleted` selects deleted workloads instead of existing ones; `include_deleting` adds workloads whose
    deletion was requested and whose pods are not gone yet.
    """

    workspace_ids: tuple[int, ...] | None = None
    cluster: str = ""
    deleted: bool = False
    include_deleting: bool = False


class WorkloadQuery(Struct, frozen=True, kw_only=True):
    """All filters must match; `search` is a part of the name, id, workspace, department, user, kind or image."""

    filters: tuple[WorkloadFilter, ...] = ()
    search: str = ""
    sort: WorkloadSort = WorkloadSort()
    scope: WorkloadScope = WorkloadScope()


def priority_class_of(priority: int) -> str:
    """The highest priority class that a priority reaches."""
    reached = [name for name, lowest in PRIORITY_CLASSES.items() if priority >= lowest]
    return reached[-1] if reached else next(iter(PRIORITY_CLASSES))
