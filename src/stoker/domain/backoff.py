"""The exponential back-off of every retry."""

from typing import TypeVar

Delay = TypeVar("Delay", int, float)
_MAX_DOUBLINGS = 62


def exponential_backoff(failures: int, first: Delay, longest: Delay) -> Delay:
    """The delay after this many consecutive failures: `first` after one, doubled with each further one, at most
    `longest`. The exponent is capped before the power is computed, so any number of failures gives a finite delay.
    """
    return min(longest, first * 2 ** min(max(failures - 1, 0), _MAX_DOUBLINGS))
