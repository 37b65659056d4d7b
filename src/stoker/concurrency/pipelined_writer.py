"""One thing is done while the next is made ready."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class Behind:
    """Work that goes on behind us, one piece at a time. What goes wrong with it is raised when the next is given, or at
    the end; if something else is raised first, that goes on once the work is over."""

    def __init__(self) -> None:
        self._work: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def give(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin with this as soon as the last is done."""
        try:
            await self._done()
        except BaseException:
            work.close()
            raise
        self._work = asyncio.create_task(work)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._done()
        elif self._work is not None:
            await asyncio.gather(self._work, return_exceptions=True)

    async def _done(self) -> None:
        if self._work is not None:
            await self._work
