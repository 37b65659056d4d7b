"""Reproducible randomness: the same key always gives the same values.

All randomness of the simulated fleet comes from here, so data of last week that is computed today is the same as if it
had been computed then.
"""

import random
import zlib
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_MASK = (1 << 64) - 1
_SPLITMIX_GAMMA = 0x9E3779B97F4A7C15
_SPLITMIX_MIX_1 = 0xBF58476D1CE4E5B9
_SPLITMIX_MIX_2 = 0x94D049BB133111EB


def hash_seed(*parts: int | str) -> int:
    """A 64-bit hash of all parts."""
    state = 0
    for part in parts:
        number = zlib.crc32(part.encode()) << 32 | zlib.adler32(part.encode()) if isinstance(part, str) else part
        state = _splitmix64((state ^ number) + _SPLITMIX_GAMMA & _MASK)
    return state


def hash_seeds(state: int, parts: NDArray[np.int64]) -> NDArray[np.uint64]:
    """`mixed` with one more part, for an array of parts."""
    each = (np.uint64(state) ^ parts.astype(np.uint64)) + np.uint64(_SPLITMIX_GAMMA)
    each = (each ^ (each >> np.uint64(30))) * np.uint64(_SPLITMIX_MIX_1)
    each = (each ^ (each >> np.uint64(27))) * np.uint64(_SPLITMIX_MIX_2)
    return each ^ (each >> np.uint64(31))


def seeded_rng(*parts: int | str) -> random.Random:
    """A random generator for one key."""
    return random.Random(hash_seed(*parts))  # noqa: S311 - a simulation, nothing is kept secret by it


def weighted_choice(rolled: random.Random, weighted: Sequence[tuple[T, float]]) -> T:
    """A weighted choice."""
    left = rolled.random() * sum(weight for _, weight in weighted)
    for value, weight in weighted:
        left -= weight
        if left <= 0:
            return value
    return weighted[-1][0]


def noise(seeds: NDArray[np.uint64], moments: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Smooth noise in -1..1 for each seed at each time: one row per time."""
    state = seeds[np.newaxis, :] ^ (moments[:, np.newaxis] * np.uint64(_SPLITMIX_GAMMA))
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_SPLITMIX_MIX_1)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SPLITMIX_MIX_2)
    return (state >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)


def _splitmix64(state: int) -> int:
    state = (state ^ state >> 30) * _SPLITMIX_MIX_1 & _MASK
    state = (state ^ state >> 27) * _SPLITMIX_MIX_2 & _MASK
    return state ^ state >> 31
