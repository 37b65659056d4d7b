"""Where news wait for a reader: each thing once, however often it changed meanwhile, so a slow reader costs nothing."""

import asyncio


class Mailbox:
    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def put(self, name: str) -> None:
        self._names[name] = None
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    async def take(self) -> list[str]:
        """All names that came since the last time, at least one; empty once closed."""
        await self._wake.wait()
        if not self._closed:
            self._wake.clear()
        names = list(self._names)
        self._names.clear()
        return names
