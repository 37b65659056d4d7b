"""A queue of keys for a slow reader: a key that is put several times before it is drained is delivered once."""

import asyncio


class CoalescingQueue:
    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._ready = asyncio.Event()
        self._closed = False

    def put(self, key: str) -> None:
        self._keys[key] = None
        self._ready.set()

    def close(self) -> None:
        self._closed = True
        self._ready.set()

    async def drain(self) -> list[str]:
        """All keys since the last call, at least one; empty once the queue is closed."""
        await self._ready.wait()
        if not self._closed:
            self._ready.clear()
        keys = list(self._keys)
        self._keys.clear()
        return keys
