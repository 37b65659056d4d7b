"""Drivers and file systems that block are read in a thread of their own. One that hangs holds up nothing but itself:
it is asked again only when it has answered, and the process can end without it."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.readings import Readings

T = TypeVar("T")

TIMEOUT_SECONDS = 5.0


class Aside:
    """A Source whose reading blocks."""

    def __init__(
        self,
        name: str,
        read: Callable[[], Readings],
        let_go: Callable[[], None] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        self._name = name
        self._read = read
        self._let_go = let_go
        self._timeout_seconds = timeout_seconds
        self._under_way: asyncio.Future[Any] | None = None
        self._asked_at = 0.0

    @property
    def name(self) -> str:
        return self._name

    async def readings(self) -> Readings:
        if self._under_way is not None and not self._under_way.done():
            raise self._silent()
        return await self._ask(self._read)

    async def close(self) -> None:
        hangs = self._under_way is not None and not self._under_way.done()
        if self._let_go is not None and not hangs:
            with contextlib.suppress(StokerError):
                await self._ask(self._let_go)

    async def _ask(self, work: Callable[[], T]) -> T:
        self._asked_at = time.monotonic()
        answer = in_thread(work, self._name)
        self._under_way = answer
        try:
            return await asyncio.wait_for(asyncio.shield(answer), self._timeout_seconds)
        except TimeoutError:
            raise self._silent() from None

    def _silent(self) -> StokerError:
        seconds = time.monotonic() - self._asked_at
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The source {self._name} has not answered for {seconds:.0f} s.",
            hint="Its driver or file system may hang: look at dmesg.",
        )


def in_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """The answer of a function that may never give one: a daemon, as a pool's threads are waited for at the end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    answer.add_done_callback(_look)

    def settle(give: Callable[[], None]) -> None:
        if not answer.done():
            give()

    def run() -> None:
        try:
            result = work()
        except Exception as error:
            reason = error
            give = lambda: answer.set_exception(reason)  # noqa: E731
        else:
            give = lambda: answer.set_result(result)  # noqa: E731
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, give)

    threading.Thread(target=run, name=f"source-{name}", daemon=True).start()
    return answer


def _look(answer: "asyncio.Future[T]") -> None:
    """An error that comes after nobody waits any more is not worth a warning."""
    if not answer.cancelled():
        answer.exception()
