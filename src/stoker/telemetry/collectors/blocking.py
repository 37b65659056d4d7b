"""A collector whose driver or file system calls block.

Each read runs in a daemon thread. While a read hangs, no further read is started, and nothing else waits for it.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any, TypeVar

from stoker.concurrency.daemon_thread import run_in_daemon_thread
from stoker.domain.cluster.samples import GpuSamples
from stoker.domain.errors import ErrorCode, StokerError

T = TypeVar("T")

TIMEOUT_SECONDS = 5.0


class BlockingCollector:
    def __init__(
        self,
        name: str,
        read: Callable[[], GpuSamples],
        on_close: Callable[[], None] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._name = name
        self._read = read
        self._on_close = on_close
        self._timeout_seconds = timeout_seconds
        self._pending: asyncio.Future[Any] | None = None
        self._started_at = 0.0

    @property
    def name(self) -> str:
        return self._name

    async def collect(self) -> GpuSamples:
        if self._hangs():
            raise self._timeout_error()
        return await self._run(self._read)

    async def close(self) -> None:
        if self._on_close is not None and not self._hangs():
            with contextlib.suppress(StokerError):
                await self._run(self._on_close)

    def _hangs(self) -> bool:
        return self._pending is not None and not self._pending.done()

    async def _run(self, call: Callable[[], T]) -> T:
        self._started_at = time.monotonic()
        future = run_in_daemon_thread(call, f"source-{self._name}")
        self._pending = future
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._timeout_seconds)
        except TimeoutError:
            raise self._timeout_error() from None

    def _timeout_error(self) -> StokerError:
        seconds = time.monotonic() - self._started_at
        return StokerError(
            ErrorCode.UNAVAILABLE,
            f"The source {self._name} has not answered for {seconds:.0f} s.",
            hint="Its driver or file system may hang: look at dmesg.",
        )
