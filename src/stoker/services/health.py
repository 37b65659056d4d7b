"""Whether this server can do its work: what it needs, and what of it does not answer."""

import asyncio
import time

from msgspec import Struct

from stoker.domain.errors import StokerError
from stoker.services.context import Context
from stoker.store import counters

TRIED = "readiness"
GOOD_SECONDS = 1.0
"""How long a write that worked stands for the next one."""


class Part(Struct, frozen=True):
    name: str
    ready: bool
    message: str


class Health:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._turn = asyncio.Lock()
        self._written = -GOOD_SECONDS

    async def parts(self) -> list[Part]:
        """Every part this server needs. Little room is told, but stops nobody: what is there can still be ended."""
        store = self._context.store
        try:
            await store.peek(lambda tx: counters.value(tx, TRIED))
            await self._write()
        except StokerError as error:
            return [Part("database", False, error.message)]
        parts = [Part("database", True, store.name.split(" ")[0])]
        try:
            store.check_room()
        except StokerError as error:
            parts.append(Part("space", True, error.message))
        return parts

    async def _write(self) -> None:
        """Really write, once for all who ask within a second."""
        async with self._turn:
            if time.monotonic() - self._written > GOOD_SECONDS:
                await self._context.store.write(lambda tx: counters.advance(tx, TRIED))
                self._written = time.monotonic()
