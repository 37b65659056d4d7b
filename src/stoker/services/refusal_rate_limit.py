"""Rate limit of refusals in the audit log, one token bucket per bucket.

A caller that is refused repeatedly cannot fill the log; the next record says how many refusals were left out.
"""

from collections import OrderedDict

from msgspec import Struct

from stoker.domain.clock import MINUTE_MS, Clock

MAX_RECORDS_PER_MINUTE = 20
MAX_CALLERS = 10_000


class _TokenBucket(Struct):
    """`dropped` counts the refusals since the last one that was recorded."""

    tokens: float
    refilled_at: int
    dropped: int = 0


class RefusalRateLimiter:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()

    def admit(self, caller: str, detail: str) -> str | None:
        """The detail to record, with the number of refusals left out before it; None when this one is left out too."""
        now = self._clock.now()
        bucket = self._buckets.setdefault(caller, _TokenBucket(MAX_RECORDS_PER_MINUTE, now))
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MAX_CALLERS:
            self._buckets.popitem(last=False)
        bucket.tokens = min(
            MAX_RECORDS_PER_MINUTE, bucket.tokens + (now - bucket.refilled_at) * MAX_RECORDS_PER_MINUTE / MINUTE_MS
        )
        bucket.refilled_at = now
        if bucket.tokens < 1:
            bucket.dropped += 1
            return None
        bucket.tokens -= 1
        dropped, bucket.dropped = bucket.dropped, 0
        return f"{detail} ({dropped} more like this were refused and not recorded)".strip() if dropped else detail
