"""Wakes listeners in this process after a write. A notification carries no data: listeners query the store."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class ChangeNotifier:
    """Every listener wakes at least once after each `notify`."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    def notify(self) -> None:
        for listener in self._listeners:
            listener.set()

    @contextmanager
    def listen(self) -> Iterator["ChangeListener"]:
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield ChangeListener(event)
        finally:
            self._listeners.discard(event)


class ChangeListener:
    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    async def wait(self, seconds: float) -> None:
        """Wait for a notification, at most `seconds`: writes of other processes send none."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
