"""Retries of open streams while the database is unavailable, for example during its restart.

A stream stays open until the outage has lasted longer than the setting `stream_patience_seconds`.
"""

import logging

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock
from stoker.domain.errors import ErrorCode, StokerError

INITIAL_BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 5.0
JITTER = 0.2

log = logging.getLogger("stoker.outage")


class DatabaseOutage:
    """The outage as one stream sees it; `reset` ends it."""

    def __init__(self, clock: Clock, timeout_seconds: float) -> None:
        self._clock = clock
        self._timeout_ms = timeout_seconds * 1000
        self._began_at: int | None = None
        self._failures = 0

    async def wait(self, error: StokerError) -> None:
        """Wait before the next try; raise the error when a retry cannot help or the outage has lasted too long."""
        if error.code is not ErrorCode.UNAVAILABLE:
            raise error
        now = self._clock.now()
        if self._began_at is None:
            self._began_at = now
            log.info("a stream waits for the database: %s", error.message)
        if now - self._began_at >= self._timeout_ms:
            raise error
        self._failures += 1
        await self._clock.sleep(
            backoff_seconds(self._failures, first=INITIAL_BACKOFF_SECONDS, longest=MAX_BACKOFF_SECONDS, jitter=JITTER)
        )

    def reset(self) -> None:
        self._began_at = None
        self._failures = 0
