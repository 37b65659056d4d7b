"""Clocks for tests: one that is advanced by the test, and one that runs fast."""

import asyncio
import heapq
import itertools
import time

from stoker.domain.clock import format_rfc3339


class ManualClock:
    """Stands still until `advance` is called; sleepers wake when their time has come."""

    def __init__(self, at: int = 1_750_000_000_000) -> None:
        self._at = at
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = itertools.count()

    def __repr__(self) -> str:
        return f"ManualClock({format_rfc3339(int(self.at))})"

    @property
    def at(self) -> int:
        return self._at

    @at.setter
    def at(self, at: int) -> None:
        """Set the time and wake the sleepers that are due."""
        self._at = at
        while self._sleepers and self._sleepers[0][0] <= at:
            waiting = heapq.heappop(self._sleepers)[2]
            if not waiting.done() and not waiting.get_loop().is_closed():
                waiting.get_loop().call_soon_threadsafe(_wake, waiting)

    def now(self) -> int:
        return self._at

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.at + seconds * 1000, next(self._number), waiting))
        await waiting

    def advance(self, seconds: float = 0, *, hours: float = 0) -> None:
        """Advance the clock."""
        self.at += round((seconds + hours * 3600) * 1000)

    @property
    def sleepers(self) -> int:
        """The number of current sleepers."""
        return sum(not waiting.done() for _, _, waiting in self._sleepers)


class FastClock:
    """Runs this many times as fast as the system clock, so that loops with periods of seconds take milliseconds."""

    def __init__(self, speed: float = 100.0) -> None:
        self.ahead_ms = 0
        self._speed = speed
        self._began_at = time.time_ns() // 1_000_000
        self._began = time.monotonic()

    def now(self) -> int:
        return self._began_at + round((time.monotonic() - self._began) * self._speed * 1000) + self.ahead_ms

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
