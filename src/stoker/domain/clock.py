"""The clock interface and time formats. All instants are UTC epoch milliseconds."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


class Clock(Protocol):
    """Source of time and delays, so that tests can advance time instead of waiting."""

    def now(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def format_rfc3339(at: int) -> str:
    """Epoch milliseconds as `2025-01-15T10:30:00.000Z`."""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at % 1000:03d}Z"


def parse_rfc3339(text: str) -> int | None:
    """Epoch milliseconds of an RFC 3339 timestamp; without an offset it is UTC. None if the text is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    at = (moment - _EPOCH) // timedelta(milliseconds=1)
    return at if 0 <= at <= MAX_TIMESTAMP_MS else None
