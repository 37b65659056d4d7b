"""The reconciler's work queue, with the semantics of client-go's workqueue.

A key is ready at most once and is processed by one worker at a time: a key that is enqueued while it is in flight
becomes ready again when it is done. Nothing is lost when the workers are restarted.
"""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Collection, Iterable

from stoker.concurrency.retry import backoff_seconds
from stoker.domain.clock import Clock

INITIAL_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 60.0


class WorkQueue:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: OrderedDict[str, None] = OrderedDict()  # a plain dict is slow to pop its first entries from
        self._in_flight: dict[str, bool] = {}
        """Keys that are being processed, and whether each was enqueued meanwhile."""
        self._failures: dict[str, int] = {}
        self._delays: dict[asyncio.Task[None], Collection[str]] = {}
        self._has_ready = asyncio.Event()

    def enqueue(self, keys: Iterable[str]) -> None:
        """Make keys ready; those in flight become ready when they are done."""
        for key in keys:
            if key in self._in_flight:
                self._in_flight[key] = True
            else:
                self._ready[key] = None
                self._has_ready.set()

    def enqueue_after(self, seconds: float, keys: Collection[str]) -> None:
        """Enqueue keys after a delay."""
        task = asyncio.create_task(self._enqueue_later(seconds, keys))
        self._delays[task] = keys
        task.add_done_callback(lambda done: self._delays.pop(done, None))

    async def _enqueue_later(self, seconds: float, keys: Collection[str]) -> None:
        await self._clock.sleep(seconds)
        self.enqueue(keys)

    def enqueue_rate_limited(self, key: str) -> None:
        """Enqueue a key that failed: the delay grows with every failure since the last `forget`."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = backoff_seconds(failures, first=INITIAL_BACKOFF_SECONDS, longest=MAX_BACKOFF_SECONDS)
        self.enqueue_after(delay, [key])

    def forget(self, key: str) -> None:
        """Reset the back-off of a key that was processed."""
        self._failures.pop(key, None)

    async def drain(self, limit: int) -> list[str]:
        """Up to `limit` ready keys, at least one, oldest first; they are in flight until `done`."""
        while not self._ready:
            self._has_ready.clear()
            await self._has_ready.wait()
        keys = list(itertools.islice(self._ready, limit))
        for key in keys:
            del self._ready[key]
            self._in_flight[key] = False
        return keys

    def acquire(self, key: str) -> bool:
        """Put a key in flight out of turn. A key that is in flight already is enqueued instead, and False returned."""
        if key in self._in_flight:
            self._in_flight[key] = True
            return False
        self._in_flight[key] = key in self._ready
        self._ready.pop(key, None)
        return True

    def is_stale(self, key: str) -> bool:
        """Whether a key in flight was enqueued again, so that it will be processed again anyway."""
        return self._in_flight[key]

    def done(self, keys: Iterable[str]) -> None:
        """Keys are no longer in flight; those that were enqueued meanwhile become ready."""
        self.enqueue([key for key in keys if self._in_flight.pop(key)])

    def stop(self) -> None:
        """Cancel all delays. The delayed keys become ready, for the workers that are started next."""
        for task, keys in list(self._delays.items()):
            task.cancel()
            self.enqueue(keys)
        self._delays.clear()
