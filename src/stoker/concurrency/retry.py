"""The delay between retries, with jitter.

Code that runs inside a pod, `engines/local/shim` and `job`, imports nothing of Stoker and has a back-off of its own.
"""

import random

from stoker.domain.backoff import exponential_backoff


def backoff_seconds(failures: int, *, first: float, longest: float, jitter: float = 0.0) -> float:
    """Seconds to wait after this many consecutive failures, as `exponential_backoff` computes them.

    `jitter` is the share of the delay that is random, so that many clients do not retry at once.
    """
    wait = exponential_backoff(failures, first, longest)
    return wait * (1 - jitter * random.random()) if jitter else wait  # noqa: S311 - spreads load, hides nothing
