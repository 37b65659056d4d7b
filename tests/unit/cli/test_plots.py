"""Terminal plots: higher values are drawn higher, and only finite numbers are drawn."""

import math

from hypothesis import given
from hypothesis import strategies as st

from stoker.cli.render.plots import bin_means, format_short, line_plot, sparkline


def test_a_falling_line_begins_high_on_the_left_and_ends_low_on_the_right() -> None:
    rows = line_plot([(step, 100 - step) for step in range(101)], width=40, height=6)
    assert len(rows) == 6
    assert rows[0].startswith("100 ┤")
    assert rows[-1].lstrip().startswith("0 ┤")
    line = [row.partition("┤")[2] for row in rows]
    assert line[0][0] != " "
    assert len(line[-1]) == max(map(len, line))
    assert line[-1][0] == " "


def test_neighbours_that_are_far_apart_are_joined() -> None:
    (row,) = line_plot([(0, 1), (10, 1)], width=12, height=1)
    assert " " not in row.partition("┤")[2]


def test_values_that_are_not_numbers_leave_no_dot() -> None:
    assert line_plot([(0, math.nan), (1, math.inf)]) == []
    assert len(line_plot([(0, math.nan), (1, 2.0)])) == 8


def test_a_sparkline_has_a_blank_where_nothing_is_known() -> None:
    assert sparkline([0, None, 1]) == "▁ █"
    assert sparkline([0.5, 1.0], low=0, high=1) == "▅█"
    assert sparkline([None, None]) == "  "


def test_points_are_spread_over_the_parts_of_a_range_by_their_time() -> None:
    assert bin_means([(0, 1.0), (1, 2.0), (2, 3.0)], 0, 2, 3) == [1.0, 2.0, 3.0]
    assert bin_means([(0, 1.0), (1, 3.0), (3, 5.0)], 0, 3, 2) == [2.0, 5.0]
    assert bin_means([(9, 7.0)], 0, 9, 3) == [None, None, 7.0]
    assert bin_means([(4, 7.0), (4, 9.0)], 4, 4, 1) == [8.0]


def test_numbers_are_short() -> None:
    assert [format_short(value) for value in (0, 2.34567, 1.5e-6, 12345.6, 3e9)] == [
        "0",
        "2.346",
        "1.50e-06",
        "12,346",
        "3.00e+09",
    ]


@given(st.lists(st.tuples(st.floats(), st.floats())), st.integers(8, 120), st.integers(1, 20))
def test_any_points_fit_into_the_plot(points: list[tuple[float, float]], width: int, height: int) -> None:
    rows = line_plot(points, width=width, height=height)
    assert len(rows) in {0, height}
    assert all(len(row) <= max(width, 13) for row in rows)
