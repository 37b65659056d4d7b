"""Half-open time intervals and how they are merged, clipped, intersected and subtracted.

Every function returns sorted intervals that are not empty and do not overlap or touch.
"""

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
"""The first moment, and the first one after the end."""


def clip(intervals: Iterable[Interval], begin: int, end: int) -> list[Interval]:
    """The parts inside a window; sorted and disjoint if the intervals are."""
    clipped = ((max(begin, start), min(end, stop)) for start, stop in intervals)
    return [(start, stop) for start, stop in clipped if start < stop]


def merge_intervals(intervals: Iterable[Interval]) -> list[Interval]:
    """The union. Intervals that touch become one; empty ones disappear."""
    merged: list[Interval] = []
    for start, stop in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        elif start < stop:
            merged.append((start, stop))
    return merged


def intersect(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    return merge_intervals(part for start, stop in one for part in clip(other, start, stop))


def subtract(one: Sequence[Interval], other: Sequence[Interval]) -> list[Interval]:
    """The parts of the first that are not in the second."""
    remaining = list(one)
    for start, stop in other:
        remaining = [
            part
            for begin, end in remaining
            for part in ((begin, min(end, start)), (max(begin, stop), end))
            if part[0] < part[1]
        ]
    return remaining


def total_length(intervals: Iterable[Interval]) -> int:
    total = 0
    for start, stop in intervals:
        total += stop - start
    return total
