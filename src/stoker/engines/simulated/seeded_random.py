"""Chance that can be asked again: the same question always has the same answer.

Everything random about the simulated fleet comes from here, so that what is computed today about last week is what
would have been computed last week.
"""

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def mixed(*parts: int | str) -> int:
    """64 bits that depend on every part."""
    state = 0
    for part in parts:
        number = zlib.crc32(part.encode()) << 32 | zlib.adler32(part.encode()) if isinstance(part, str) else part
        state = _scrambled((state ^ number) + _GOLDEN & _MASK)
    return state


def mixed_each(state: int, parts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """What `mixed` gives for one more part, for each of many."""
    each = (np.uint64(state) ^ parts.astype(np.uint64)) + np.uint64(_GOLDEN)
    each = (each ^ (each >> np.uint64(30))) * np.uint64(_FIRST)
    each = (each ^ (each >> np.uint64(27))) * np.uint64(_SECOND)
    return each ^ (each >> np.uint64(31))


def dice(*parts: int | str) -> random.Random:
    """As much chance as is wanted about one thing."""
    return random.Random(mixed(*parts))  # noqa: S311 - a simulation, nothing is kept secret by it


def choice(rolled: random.Random, weighted: Sequence[tuple[T, float]]) -> T:
    """One of these, the heavier the likelier."""
    left = rolled.random() * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        left -= weight
        if left <= 0:
            return value
    return weighted[-1][0]


def noise(seeds: NDArray[np.uint64], moments: NDArray[np.uint64]) -> NDArray[np.float32]:
    """A number in -1..1 for each seed at each moment: a row for every moment."""
    state = seeds[np.newaxis, :] ^ (moments[:, np.newaxis] * np.uint64(_GOLDEN))
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    return (state >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)


def _scrambled(state: int) -> int:
    state = (state ^ state >> 30) * _FIRST & _MASK
    state = (state ^ state >> 27) * _SECOND & _MASK
    return state ^ state >> 31
