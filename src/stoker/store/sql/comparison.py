"""The SQL operators of the filter operators that compare whole values."""

from stoker.domain.queries.filters import FilterOperator

COMPARISON_SQL = {
    FilterOperator.EQUAL: "=",
    FilterOperator.NOT_EQUAL: "<>",
    FilterOperator.AT_MOST: "<=",
    FilterOperator.AT_LEAST: ">=",
}
