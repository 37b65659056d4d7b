"""Filters as SQL predicates.

A predicate on a group column applies to `workload_count` as well as to `workload`; the others apply to `workload` only.
A predicate carries its operator and column, so that no code has to look into its SQL.
"""

import math
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from stoker.domain.queries.filters import FilterOperator, FilterValue, matches
from stoker.domain.queries.workload_query import WorkloadField, WorkloadFilter
from stoker.store.db.base import Transaction
from stoker.store.sql.comparison import COMPARISON_SQL
from stoker.store.sql.pagination import escape_like
from stoker.store.workloads.query.fields import (
    ACCRUED_TIMES,
    ALLOCATED_MILLI,
    COLUMN_VALUE_FIELDS,
    DESCRIPTION_COLUMN,
    FIELDS_WITHOUT_VALUE,
    GROUP_COLUMNS,
    IDLE_MILLI,
    NAME_INDEX_COLUMNS,
    REQUESTED_GPUS_EXPR,
    TIMESTAMP_COLUMNS,
    WORKSPACE_EXPR,
    AllocationExpr,
    defeat_index,
)
from stoker.store.workloads.query.groups import WORKSPACE_DEPARTMENTS, group_values

WORKSPACE_IDS_IN_USE = "SELECT DISTINCT workspace_id FROM workload_count"
TEXT_GROUP_FIELDS = frozenset({WorkloadField.USER_NAME, WorkloadField.USER_ID, WorkloadField.NAMESPACE})
"""Group columns with many values, which are compared in SQL."""
Operand = FilterValue | tuple[FilterValue, ...]


class Predicate(Struct, frozen=True):
    """One condition on workloads. `sql` has `{}` in place of the column, if it is about one column.

    `selective` means that an index finds the matching workloads; `covering` that the index of names holds everything
    the predicate reads.
    """

    sql: str
    params: Mapping[str, object] = {}
    column: str = ""
    operator: FilterOperator | None = None
    selective: bool = False
    covering: bool = False
    accrued_field: WorkloadField | None = None
    """The accrued time that the predicate is about."""
    branches: tuple[str, ...] = ()
    """The conditions for stopped and for running workloads, if the predicate is about an accrued time."""
    joined_sql: str = ""
    """The same condition where `workload_allocation` is joined, if the predicate is about the allocation."""

    @property
    def is_single_value(self) -> bool:
        """Whether all matching workloads have the same value in the column."""
        return self.operator in {FilterOperator.IN, FilterOperator.EQUAL} and len(self.params) == 1

    def on_table(self, table: str = "workload") -> str:
        return self.on_expression(f"{table}.{self.column}") if self.column else self.sql

    def on_expression(self, expression: str) -> str:
        return self.sql.replace("{}", expression)

    def unindexed(self) -> str:
        """The condition in a form that uses no index on its column."""
        return self.on_expression(defeat_index(self.column)) if self.column else self.sql

    def with_allocation_joined(self) -> str:
        """The condition in a query that joins `workload_allocation`."""
        return self.joined_sql or self.on_table()


MATCH_NONE = Predicate("1 = 0")


def in_list(column: str, values: Iterable[object], tag: str) -> Predicate:
    """`column IN (…)`; an empty list matches nothing."""
    params = {f"{tag}_{number}": value for number, value in enumerate(values)}
    if not params:
        return MATCH_NONE
    names = ", ".join(f":{name}" for name in params)
    return Predicate(f"{{}} IN ({names})", params, column, FilterOperator.IN)


def group_predicate(transaction: Transaction, condition: WorkloadFilter, tag: str) -> Predicate | None:
    """A filter on a group column; None when it matches every workload."""
    field, operator = condition.field, condition.operator
    column = GROUP_COLUMNS[field]
    if field in WORKSPACE_EXPR:
        return _workspace_predicate(transaction, condition, tag)
    if operator is FilterOperator.IN and field in COLUMN_VALUE_FIELDS:
        return in_list(column, _values(condition.value), tag)
    if field in TEXT_GROUP_FIELDS:
        return text_predicate(column, operator, condition.value, tag)
    values = group_values(transaction, field)
    matching = [key for key, value in values.items() if matches(value, operator, condition.value)]
    return None if len(matching) == len(values) else in_list(column, matching, tag)


def _workspace_predicate(transaction: Transaction, condition: WorkloadFilter, tag: str) -> Predicate | None:
    """A filter on the workspace or its department. Of a deleted workspace only the id is known."""
    field, operator = condition.field, condition.operator
    wanted = tuple(map(str, condition.value)) if isinstance(condition.value, tuple) else str(condition.value)
    text = text_predicate("", operator, wanted, tag)
    # Workloads of deleted workspaces have empty names. A filter that matches those is written as the list of the
    # workspaces that it does not match.
    inverted = field is not WorkloadField.WORKSPACE_ID and matches("", operator, wanted)
    where = f"{'NOT ' if inverted else ''}({text.on_expression(WORKSPACE_EXPR[field])})"
    source = WORKSPACE_IDS_IN_USE if field is WorkloadField.WORKSPACE_ID else WORKSPACE_DEPARTMENTS
    rows = transaction.fetch_all(f"{source} WHERE {where}", text.params)
    found = in_list("workspace_id", (row[0] for row in rows), tag)
    if not inverted:
        return found
    return structs.replace(found, sql=f"NOT ({found.sql})", operator=None) if found.params else None


def row_predicate(condition: WorkloadFilter, tag: str) -> Predicate | None:
    """A filter on a field that is not a group column; None when it matches every workload."""
    field, operator, value = condition.field, condition.operator, condition.value
    if field in FIELDS_WITHOUT_VALUE:
        return None if matches(None, operator, value) else MATCH_NONE
    if field in TIMESTAMP_COLUMNS:
        return _timestamp_predicate(TIMESTAMP_COLUMNS[field], operator, value, tag)
    if field in ACCRUED_TIMES:
        return _accrued_time_predicate(field, operator, value, tag)
    match field:
        case WorkloadField.NAME:
            return text_predicate("name", operator, value, tag)
        case WorkloadField.SLUG:
            return text_predicate("slug", operator, value, tag)
        case WorkloadField.DESCRIPTION:
            return _description_predicate(operator, value, tag)
        case WorkloadField.IDLE_GPUS:
            whole = AllocationExpr(*(f"(({sql} + 999) / 1000)" for sql in structs.astuple(IDLE_MILLI)))
            return _allocation_predicate(whole, operator, value, tag, milli=False)
        case WorkloadField.GPUS:
            return _numeric_predicate(REQUESTED_GPUS_EXPR, operator, value, tag, milli=True)
        case _:
            milli = ALLOCATED_MILLI if field is WorkloadField.ALLOCATED_GPUS else IDLE_MILLI
            return _allocation_predicate(milli, operator, value, tag, milli=True)


def text_predicate(column: str, operator: FilterOperator, value: Operand, tag: str) -> Predicate:
    """A filter on a lower-case text column."""
    if operator is FilterOperator.IN:
        return in_list(column, _values(value), tag)
    covering = column in NAME_INDEX_COLUMNS
    folded = str(value).casefold()
    match operator:
        case FilterOperator.CONTAINS:
            sql, params = f"instr({{}}, :{tag}) > 0", {tag: folded}
            return Predicate(sql, params, column, operator, covering=covering)
        case FilterOperator.NOT_CONTAINS:
            return Predicate(f"instr({{}}, :{tag}) = 0", {tag: folded}, column, operator)
        case FilterOperator.STARTS_WITH:
            params = {f"{tag}_from": folded, f"{tag}_to": folded + "\U0010ffff"}
            return Predicate(f"({{}} >= :{tag}_from AND {{}} < :{tag}_to)", params, column, operator, selective=True)
        case FilterOperator.ENDS_WITH:
            params = {tag: folded, f"{tag}_end": f"%{escape_like(str(value))}"}
            sql = f"(instr({{}}, :{tag}) > 0 AND {{}} LIKE :{tag}_end ESCAPE '!')"
            return Predicate(sql, params, column, operator, covering=covering)
        case _:
            selective = operator is not FilterOperator.NOT_EQUAL
            sql = f"{{}} {COMPARISON_SQL[operator]} :{tag}"
            return Predicate(sql, {tag: str(value)}, column, operator, selective=selective)


def _description_predicate(operator: FilterOperator, value: Operand, tag: str) -> Predicate:
    """Most workloads have no description; the index holds only those that have one."""
    text = text_predicate(DESCRIPTION_COLUMN, operator, value, tag)
    if not text.column or matches("", operator, value):
        return structs.replace(text, selective=False)
    return structs.replace(text, sql=f"({{}} <> '' AND {text.sql})", selective=True)


def _timestamp_predicate(column: str, operator: FilterOperator, value: Operand, tag: str) -> Predicate:
    if operator is FilterOperator.IN:
        return structs.replace(in_list(column, _values(value), tag), selective=True)
    if operator is FilterOperator.NOT_EQUAL:
        return Predicate(f"({{}} IS NULL OR {{}} <> :{tag})", {tag: value}, column, operator)
    return Predicate(f"{{}} {COMPARISON_SQL[operator]} :{tag}", {tag: value}, column, operator, selective=True)


def _accrued_time_predicate(field: WorkloadField, operator: FilterOperator, value: Operand, tag: str) -> Predicate:
    """Whole seconds are compared: a second reaches from its first to its last millisecond."""
    time = ACCRUED_TIMES[field]
    if operator not in {FilterOperator.EQUAL, FilterOperator.AT_MOST, FilterOperator.AT_LEAST} or not isinstance(
        value, int | float
    ):
        return _numeric_predicate(f"({time.current} / 1000)", operator, value, tag, milli=False)
    lower = None if operator is FilterOperator.AT_MOST else f":{tag}_least"
    upper = None if operator is FilterOperator.AT_LEAST else f":{tag}_most"
    if operator is FilterOperator.EQUAL and value != math.floor(value):
        return MATCH_NONE
    params: dict[str, object] = {}
    if lower:
        params[f"{tag}_least"] = math.ceil(value) * 1000
    if upper:
        params[f"{tag}_most"] = (math.floor(value) + 1) * 1000
    branches = time.range_conditions(lower, upper)
    sql = f"({' OR '.join(f'({branch})' for branch in branches)})"
    return Predicate(sql, params, operator=operator, selective=True, accrued_field=field, branches=branches)


def _allocation_predicate(
    expression: AllocationExpr, operator: FilterOperator, value: Operand, tag: str, *, milli: bool
) -> Predicate:
    """Selective if workloads without an allocation do not match."""
    predicate = _numeric_predicate(expression.sql, operator, value, tag, milli=milli)
    joined = _numeric_predicate(expression.joined_sql, operator, value, tag, milli=milli)
    return structs.replace(predicate, joined_sql=joined.sql, selective=not matches(0, operator, value))


def _numeric_predicate(
    expression: str, operator: FilterOperator, value: Operand, tag: str, *, milli: bool
) -> Predicate:
    """A comparison of a number; `milli` means that the expression is in thousandths of the value's unit."""
    scaled = [number * 1000 if milli and not isinstance(number, str) else number for number in _values(value)]
    if operator is FilterOperator.IN:
        found = in_list("", scaled, tag)
        return structs.replace(found, sql=found.on_expression(expression))
    if not operator.is_text_match:
        return Predicate(f"{expression} {COMPARISON_SQL[operator]} :{tag}", {tag: scaled[0]}, operator=operator)
    shown = _decimal_expr(expression) if milli else f"CAST({expression} AS TEXT)"
    pattern = text_predicate("", operator, value, tag)
    if operator is FilterOperator.STARTS_WITH:
        pattern = Predicate(f"{{}} LIKE :{tag} ESCAPE '!'", {tag: f"{escape_like(str(value))}%"})
    return Predicate(pattern.on_expression(shown), pattern.params, operator=operator)


def _values(value: Operand) -> tuple[FilterValue, ...]:
    return value if isinstance(value, tuple) else (value,)


def _decimal_expr(milli: str) -> str:
    """Thousandths as decimal text without trailing zeros: `8`, `0.5`."""
    fraction = f"RTRIM(SUBSTR(CAST(1000 + {milli} % 1000 AS TEXT), 2), '0')"
    return f"(CAST({milli} / 1000 AS TEXT) || CASE WHEN {milli} % 1000 = 0 THEN '' ELSE '.' || {fraction} END)"
