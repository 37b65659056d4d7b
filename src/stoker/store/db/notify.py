"""Says that something new is in the store. It tells when to look, never what there is."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Signal:
    """Any number of listeners in this process; each hears at least once after every `notify`."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    def notify(self) -> None:
        for listener in self._listeners:
            listener.set()

    @contextmanager
    def listening(self) -> Iterator["Listener"]:
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield Listener(event)
        finally:
            self._listeners.discard(event)


class Listener:
    def __init__(self, event: asyncio.Event) -> None:
        self._event = event

    async def wait(self, seconds: float) -> None:
        """Until there is something new, or for so long: another process may have written it."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
        self._event.clear()
