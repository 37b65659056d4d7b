"""How often one caller may ask: a bucket of tokens each, refilled at the limit's rate."""

import time
from collections import OrderedDict
from collections.abc import Callable

from stoker.domain.errors import ErrorCode, StokerError

REMEMBERED = 10_000


class RateLimit:
    """Up to `per_second` requests a second with as many at once; 0 is no limit."""

    def __init__(self, per_second: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> None:
        """Count one request, or refuse it and say when to come back."""
        if not self._rate:
            return
        now = self._monotonic()
        tokens, seen = self._buckets.get(who, (float(self._rate), now))
        tokens = min(float(self._rate), tokens + (now - seen) * self._rate)
        if tokens < 1:
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"Too many requests: the limit is {self._rate} a second. Try again in a second.",
                retry_after_seconds=1,
            )
        self._buckets[who] = (tokens - 1, now)
        self._buckets.move_to_end(who)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
