"""The values of group columns, and the values of the fields that are derived from them."""

from typing import Any

from stoker.domain.queries.filters import FilterValue
from stoker.domain.queries.workload_query import FRAMEWORK_BY_KIND, WorkloadField, priority_class_of
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Kind, category_of
from stoker.store.db.base import Transaction
from stoker.store.workloads.query.fields import GROUP_COLUMNS

WORKSPACE_DEPARTMENTS = """
SELECT workspace.id, workspace.name, workspace.department_id, department.name
FROM workspace
JOIN department ON department.id = workspace.department_id
"""
DELETED_WORKSPACES = """
SELECT DISTINCT workspace_id, '', 0, ''
FROM workload_count
WHERE workspace_id NOT IN (SELECT id FROM workspace)
"""
CLUSTER_IDS = "SELECT id FROM cluster"
DISTINCT_GROUP_VALUES = "SELECT DISTINCT {} FROM workload_count"

GroupValues = dict[object, FilterValue | tuple[str, ...] | None]


def group_values(transaction: Transaction, field: WorkloadField) -> GroupValues:
    """The value of a field for each value of its group column."""
    match field:
        case WorkloadField.KIND:
            return {kind: kind for kind in _kinds(transaction)}
        case WorkloadField.CATEGORY:
            return {kind: str(category_of(kind)) for kind in _kinds(transaction)}
        case WorkloadField.FRAMEWORK:
            return {kind: FRAMEWORK_BY_KIND.get(kind) for kind in _kinds(transaction)}
        case WorkloadField.PHASE:
            return {phase: str(phase.displayed) for phase in Phase}
        case WorkloadField.CLUSTER_ID:
            return {row[0]: row[0] for row in transaction.fetch_all(CLUSTER_IDS)}
        case WorkloadField.PRIORITY_CLASS:
            return {value: priority_class_of(value) for value in _distinct(transaction, field)}
        case WorkloadField.NODE_POOLS:
            return {value: tuple(value.split(",")) for value in _distinct(transaction, field)}
        case WorkloadField.PRIORITY | WorkloadField.USER_NAME | WorkloadField.USER_ID | WorkloadField.NAMESPACE:
            return {value: value for value in _distinct(transaction, field)}
        case _:
            position = {
                WorkloadField.WORKSPACE_ID: 0,
                WorkloadField.WORKSPACE: 1,
                WorkloadField.DEPARTMENT_ID: 2,
                WorkloadField.DEPARTMENT: 3,
            }[field]
            rows = (*transaction.fetch_all(WORKSPACE_DEPARTMENTS), *transaction.fetch_all(DELETED_WORKSPACES))
            return {row[0]: str(row[position]) for row in rows}


def order_groups(values: GroupValues, *, descending: bool) -> list[list[object]]:
    """The keys sorted by value, keys of equal values together, keys without a value last."""
    keys_by_value: dict[Any, list[object]] = {}
    for key, value in values.items():
        keys_by_value.setdefault(",".join(value) if isinstance(value, tuple) else value, []).append(key)
    missing = keys_by_value.pop(None, [])
    ordered = [keys_by_value[value] for value in sorted(keys_by_value, reverse=descending)]
    return [*ordered, *([missing] if missing else [])]


def _kinds(transaction: Transaction) -> list[str]:
    """The kinds that can be submitted and those of foreign workloads."""
    return list(dict.fromkeys([*map(str, Kind), *_distinct(transaction, WorkloadField.KIND)]))


def _distinct(transaction: Transaction, field: WorkloadField) -> list[Any]:
    return [row[0] for row in transaction.fetch_all(DISTINCT_GROUP_VALUES.format(GROUP_COLUMNS[field]))]
