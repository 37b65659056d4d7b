"""Limits of exec sessions per user: how many are open, and how many start per minute."""

import contextlib
from collections import Counter
from collections.abc import Iterator

from stoker.api.http.prometheus import ServerMetrics
from stoker.api.http.rate_limit import RateLimiter
from stoker.domain.access.permissions import Actor
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.settings.schema import Settings

MINUTE_SECONDS = 60.0
RETRY_AFTER_SECONDS = 5


class ExecLimiter:
    def __init__(self, settings: Settings, metrics: ServerMetrics) -> None:
        self._limit = settings.exec_limit
        self._rate_limiter = RateLimiter(settings.exec_rate_limit, period_seconds=MINUTE_SECONDS)
        self._metrics = metrics
        self._open_by_user: Counter[str] = Counter()

    @contextlib.contextmanager
    def acquire(self, actor: Actor) -> Iterator[None]:
        """Count a session of this user while it is open; 429 if the limit is reached."""
        user_id = actor.user_id
        if self._open_by_user[user_id] >= self._limit:
            commands = "1 command" if self._limit == 1 else f"{self._limit} commands"
            raise StokerError(
                ErrorCode.TOO_MANY_REQUESTS,
                f"You have {commands} running in pods, which is the limit per user.",
                hint="End one, or have the setting exec_limit raised.",
                retry_after_seconds=RETRY_AFTER_SECONDS,
            )
        self._rate_limiter.acquire(user_id)
        self._open_by_user[user_id] += 1
        try:
            yield
        finally:
            self._open_by_user[user_id] -= 1
            if not self._open_by_user[user_id]:
                del self._open_by_user[user_id]

    @contextlib.contextmanager
    def track_session(self) -> Iterator[None]:
        """Count a session in the metrics while the command runs."""
        self._metrics.exec_opened.inc()
        with self._metrics.exec_sessions.track_inprogress():
            yield

    def count_refusal(self, error: StokerError) -> None:
        self._metrics.exec_refused.labels(str(error.code)).inc()
