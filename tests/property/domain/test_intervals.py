"""Interval arithmetic, compared with sets of moments."""

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from stoker.domain.intervals import Interval, clip, intersect, merge_intervals, subtract, total_length

moments = st.integers(0, 30)
intervals = st.lists(st.tuples(moments, moments), max_size=8)


def moments_in(found: Iterable[Interval]) -> set[int]:
    return {at for start, stop in found for at in range(start, stop)}


@given(intervals)
def test_merged_intervals_cover_the_same_moments_are_sorted_and_do_not_touch(given_intervals: list[Interval]) -> None:
    merged = merge_intervals(given_intervals)
    assert moments_in(merged) == moments_in(given_intervals)
    assert all(start < stop for start, stop in merged)
    assert all(one[1] < other[0] for one, other in pairwise(merged))
    assert total_length(merged) == len(moments_in(merged))


@given(intervals.map(merge_intervals), intervals.map(merge_intervals), moments, moments)
def test_intersection_difference_and_clipping_are_those_of_sets(
    one: list[Interval], other: list[Interval], begin: int, end: int
) -> None:
    assert moments_in(intersect(one, other)) == moments_in(one) & moments_in(other)
    assert moments_in(subtract(one, other)) == moments_in(one) - moments_in(other)
    assert moments_in(clip(one, begin, end)) == moments_in(one) & set(range(begin, end))
