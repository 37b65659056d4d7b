"""Filter operators compare values the same way in every list."""

import pytest

from stoker.domain.queries.filters import FILTER_BY_OPERATORS, FilterOperator, matches


@pytest.mark.parametrize(
    ("value", "operator", "wanted", "expected"),
    [
        ("vision", FilterOperator.EQUAL, "vision", True),
        ("vision", FilterOperator.EQUAL, "Vision", False),
        ("vision", FilterOperator.CONTAINS, "SIO", True),
        ("vision", FilterOperator.STARTS_WITH, "Vis", True),
        ("vision", FilterOperator.ENDS_WITH, "ION", True),
        ("vision", FilterOperator.NOT_CONTAINS, "sio", False),
        (8, FilterOperator.AT_LEAST, 8.0, True),
        (8, FilterOperator.AT_MOST, 7.5, False),
        ("vision", FilterOperator.IN, ("audio", "vision"), True),
        ("vision", FilterOperator.IN, ("audio",), False),
        ("vision", FilterOperator.IN, (), False),
        (8, FilterOperator.IN, (1, 8), True),
    ],
)
def test_a_value_is_compared_by_an_operator(
    value: str | int, operator: FilterOperator, wanted: str | float | tuple[str | int, ...], expected: bool
) -> None:
    assert matches(value, operator, wanted) is expected


@pytest.mark.parametrize("operator", list(FilterOperator))
def test_a_missing_value_matches_only_negative_operators(operator: FilterOperator) -> None:
    wanted = ("x",) if operator is FilterOperator.IN else "x"
    assert matches(None, operator, wanted) is operator.is_negative


def test_one_of_several_values_is_enough_unless_the_operator_is_negative() -> None:
    assert matches(("fast", "spare"), FilterOperator.EQUAL, "spare")
    assert matches(("fast", "spare"), FilterOperator.IN, ("slow", "spare"))
    assert not matches(("fast", "spare"), FilterOperator.NOT_EQUAL, "spare")


def test_requests_cannot_spell_the_operator_for_several_values() -> None:
    assert FilterOperator.IN not in FILTER_BY_OPERATORS
    assert len(FILTER_BY_OPERATORS) == len(FilterOperator) - 1
