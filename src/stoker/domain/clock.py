"""Time is passed in. All instants are UTC epoch milliseconds."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
FOREVER = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class Clock(Protocol):
    def now(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000


def rfc3339(at: int) -> str:
    """Epoch milliseconds as `2025-01-15T10:30:00.000Z`."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def parse_rfc3339(text: str) -> int | None:
    """Epoch milliseconds of an RFC 3339 instant with any offset; without one, UTC. None when it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at = (moment - _EPOCH) // timedelta(milliseconds=1)
    return at if 0 <= at <= FOREVER else None
