"""Rate limits: one token bucket per caller."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from stoker.domain.errors import ErrorCode, StokerError

MAX_TRACKED_CALLERS = 10_000


class RateLimiter:
    """Allows `limit` requests per period and caller, in bursts of the same size; 0 is unlimited."""

    def __init__(
        self, limit: int, monotonic: Callable[[], float] = time.monotonic, *, period_seconds: float = 1.0
    ) -> None:
        self._limit = limit
        self._period_seconds = period_seconds
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def acquire(self, caller: str) -> None:
        """Count a request, or reject it with the time to wait."""
        if not self._limit:
            return
        now = self._monotonic()
        tokens, seen = self._buckets.get(caller, (float(self._limit), now))
        tokens = min(float(self._limit), tokens + (now - seen) * self._limit / self._period_seconds)
        if tokens < 1:
            wait = math.ceil((1 - tokens) * self._period_seconds / self._limit)
            period = "a second" if self._period_seconds == 1 else f"in {self._period_seconds:g} seconds"
            again = "in a second" if wait == 1 else f"in {wait} seconds"
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"Too many requests: the limit is {self._limit} {period}. Try again {again}.",
                retry_after_seconds=wait,
            )
        self._buckets[caller] = (tokens - 1, now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_TRACKED_CALLERS:
            self._buckets.popitem(last=False)
