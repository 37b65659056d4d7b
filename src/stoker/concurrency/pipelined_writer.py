"""Runs one piece of work in the background while the caller prepares the next."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class PipelinedWriter:
    """Runs work in the background, one piece at a time. An error of the work is raised by the next `submit` or at exit;
    if the block itself fails, its own error is raised after the work has ended."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def submit(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait until the previous work is done, then start this."""
        try:
            await self._wait()
        except BaseException:
            work.close()
            raise
        self._task = asyncio.create_task(work)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self._wait()
        elif self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self) -> None:
        if self._task is not None:
            await self._task
