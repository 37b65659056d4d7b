"""Filter operators, and how a value is compared by one.

Lists that SQL filters and lists that are filtered in memory use the same operators with the same meaning.
"""

from enum import Enum

FilterValue = str | int | float


class FilterOperator(Enum):
    EQUAL = "=="
    NOT_EQUAL = "!="
    AT_MOST = "<="
    AT_LEAST = ">="
    CONTAINS = "=@"
    NOT_CONTAINS = "!@"
    STARTS_WITH = "=^"
    ENDS_WITH = "=$"
    IN = "in"
    """Equal to one of several values. It has no spelling in a `filterBy` parameter."""

    @property
    def is_text_match(self) -> bool:
        """Whether it compares a part of the text, ignoring case."""
        return self in _TEXT_MATCHES

    @property
    def is_negative(self) -> bool:
        """Whether it is true for a missing value."""
        return self in {FilterOperator.NOT_EQUAL, FilterOperator.NOT_CONTAINS}


_TEXT_MATCHES = frozenset(
    {
        FilterOperator.CONTAINS,
        FilterOperator.NOT_CONTAINS,
        FilterOperator.STARTS_WITH,
        FilterOperator.ENDS_WITH,
    }
)
FILTER_BY_OPERATORS = tuple(operator for operator in FilterOperator if operator is not FilterOperator.IN)
"""The operators that a `filterBy` parameter can spell."""


def matches(
    value: FilterValue | tuple[str, ...] | None,
    operator: FilterOperator,
    wanted: FilterValue | tuple[FilterValue, ...],
) -> bool:
    """Whether a value satisfies a filter.

    A field with several values matches if one of them does; a negative operator must be true for all of them.
    """
    if isinstance(value, tuple):
        results = [matches(element, operator, wanted) for element in value]
        return all(results) if operator.is_negative else any(results)
    if value is None:
        return operator.is_negative
    if isinstance(wanted, tuple):
        return any(matches(value, FilterOperator.EQUAL, choice) for choice in wanted)
    if operator.is_text_match:
        return _matches_text(str(value).casefold(), operator, str(wanted).casefold())
    left, right = (value, wanted) if isinstance(value, str) is isinstance(wanted, str) else (str(value), str(wanted))
    match operator:
        case FilterOperator.NOT_EQUAL:
            return left != right
        case FilterOperator.AT_MOST:
            return left <= right  # type: ignore[operator]
        case FilterOperator.AT_LEAST:
            return left >= right  # type: ignore[operator]
        case _:
            return left == right


def _matches_text(text: str, operator: FilterOperator, wanted: str) -> bool:
    match operator:
        case FilterOperator.STARTS_WITH:
            return text.startswith(wanted)
        case FilterOperator.ENDS_WITH:
            return text.endswith(wanted)
        case FilterOperator.NOT_CONTAINS:
            return wanted not in text
        case _:
            return wanted in text
