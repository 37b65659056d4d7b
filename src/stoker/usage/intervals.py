"""Stretches of time: sorted, apart from each other, half open."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Stretch = tuple[int, int]
"""From a moment on, up to another one."""


def clipped(stretches: Iterable[Stretch], begin: int, end: int) -> list[Stretch]:
    """What lies in a window."""
    cut = ((max(begin, first), min(end, last)) for first, last in stretches)
    return [(first, last) for first, last in cut if first < last]


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The same time, no moment of it twice."""
    found: list[Stretch] = []
    for first, last in sorted(stretches):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        elif first < last:
            found.append((first, last))
    return found


def shared(one: Sequence[Stretch], other: Sequence[Stretch]) -> list[Stretch]:
    """What lies in both."""
    return merged(piece for first, last in one for piece in clipped(other, first, last))


def without(one: Sequence[Stretch], other: Sequence[Stretch]) -> list[Stretch]:
    """What lies in the first only."""
    left = list(one)
    for first, last in other:
        left = [
            piece
            for begin, end in left
            for piece in ((begin, min(end, first)), (max(begin, last), end))
            if piece[0] < piece[1]
        ]
    return left


def length(stretches: Iterable[Stretch]) -> int:
    total = 0
    for first, last in stretches:
        total += last - first
    return total


class Crowd:
    """How many there are at once, over time."""

    def __init__(self, members: Iterable[tuple[Stretch, int]]) -> None:
        steps: dict[int, int] = {}
        for (first, last), weight in members:
            steps[first] = steps.get(first, 0) + weight
            steps[last] = steps.get(last, 0) - weight
        moments = sorted(steps)
        self._levels: list[tuple[int, int]] = []
        level = 0
        for moment, then in pairwise(moments):
            level += steps[moment]
            if level:
                self._levels.append((level, then - moment))

    @property
    def highest(self) -> int:
        return max((level for level, _ in self._levels), default=0)

    @property
    def lowest(self) -> int:
        """While there is anybody at all."""
        return min((level for level, _ in self._levels), default=0)

    @property
    def average(self) -> float:
        """Weighted by time, while there is anybody at all."""
        time = sum(duration for _, duration in self._levels)
        return sum(level * duration for level, duration in self._levels) / time if time else 0.0
