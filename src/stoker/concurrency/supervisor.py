"""Runs endless loops. A loop that fails or returns is logged, counted in a registry that health checks and metrics
read, and restarted with back-off.

The supervisor ends only when it is cancelled or when a loop raises an error of `stop_on`, wherever in an exception
group.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Struct, structs

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock, format_rfc3339
from stoker.domain.errors import StokerError

INITIAL_RESTART_DELAY_SECONDS = 1.0
MAX_RESTART_DELAY_SECONDS = 30.0
RECOVERED_AFTER_MS = 60_000
"""A loop that has run for this long is healthy again, and its failures are counted from zero."""
FAILURE_THRESHOLD = 3
"""After this many consecutive failures the server is not ready."""

log = logging.getLogger("stoker.supervisor")

Loop = Callable[[], Coroutine[Any, Any, None]]


class LoopState(Struct, frozen=True):
    """The state of one loop: its restarts, and its failures since it last ran for long."""

    name: str
    scope: str
    is_running: bool
    started_at: int
    restarts: int = 0
    failures: int = 0
    failed_at: int = 0
    reason: str = ""

    def is_failing(self, now: int) -> bool:
        """Whether the loop fails repeatedly; it has recovered once it has run for long enough."""
        recovered = self.is_running and now - self.started_at >= RECOVERED_AFTER_MS
        return self.failures >= FAILURE_THRESHOLD and not recovered

    @property
    def message(self) -> str:
        of = f" of cluster {self.scope}" if self.scope else ""
        return (
            f"The loop {self.name}{of} has failed {self.failures} times in a row, "
            f"last at {format_rfc3339(self.failed_at)}: "
            f"{self.reason} It is started again by itself."
        )


class LoopRegistry:
    """The state of every loop of one server."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], LoopState] = {}

    def list_states(self) -> list[LoopState]:
        return [self._states[key] for key in sorted(self._states)]

    def record_start(self, name: str, scope: str, at: int) -> None:
        before = self._states.get((scope, name))
        new = LoopState(name, scope, is_running=True, started_at=at)
        self._states[scope, name] = structs.replace(before, is_running=True, started_at=at) if before else new

    def record_failure(self, name: str, scope: str, at: int, reason: str) -> int:
        """Count a failure; returns the number of consecutive ones."""
        before = self._states[scope, name]
        failures = 1 if at - before.started_at >= RECOVERED_AFTER_MS else before.failures + 1
        self._states[scope, name] = structs.replace(
            before, is_running=False, restarts=before.restarts + 1, failures=failures, failed_at=at, reason=reason
        )
        return failures

    def record_stop(self, name: str, scope: str) -> None:
        """Record that the loop has stopped as intended."""
        self._states[scope, name] = structs.replace(self._states[scope, name], is_running=False, failures=0)


class Supervisor:
    """Supervises the loops of one `scope`: a cluster, or an empty string for loops of the server."""

    def __init__(
        self,
        clock: Clock,
        loops: LoopRegistry | None = None,
        scope: str = "",
        stop_on: tuple[type[Exception], ...] = (),
    ) -> None:
        self._clock = clock
        self._loops = loops or LoopRegistry()
        self._scope = scope
        self._stop_on = stop_on

    async def run(self, name: str, loop: Loop) -> None:
        """Run the loop until it is cancelled or raises an error of `stop_on`, which is raised."""
        try:
            while True:
                self._loops.record_start(name, self._scope, self._clock.now())
                reason = await self._run_once(name, loop)
                failures = self._loops.record_failure(name, self._scope, self._clock.now(), reason)
                await self._clock.sleep(
                    backoff_seconds(failures, first=INITIAL_RESTART_DELAY_SECONDS, longest=MAX_RESTART_DELAY_SECONDS)
                )
        finally:
            self._loops.record_stop(name, self._scope)

    async def _run_once(self, name: str, loop: Loop) -> str:
        """Run the loop once; returns why it ended."""
        of = f" of cluster {self._scope}" if self._scope else ""
        try:
            await loop()
        except Exception as error:
            if (stop := find_error(error, self._stop_on)) is not None:
                raise stop from (None if stop is error else error)
            if (known := find_error(error, (StokerError,))) is not None and isinstance(known, StokerError):
                log.warning("loop %s%s failed and is started again: %s", name, of, known.message)
                return known.message
            log.exception("loop %s%s failed and is started again", name, of)
            return "The server's log has the cause."
        log.error("loop %s%s returned and is started again", name, of)
        return "It returned."


def find_error(error: BaseException, kinds: tuple[type[Exception], ...]) -> Exception | None:
    """The first error of one of these types, at any depth of nested exception groups."""
    if kinds and isinstance(error, kinds):
        return error
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            if (found := find_error(inner, kinds)) is not None:
                return found
    return None
