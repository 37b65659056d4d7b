"""Runs a blocking call in a daemon thread of its own and awaits the result.

A call that never returns keeps only its own thread busy: the event loop goes on, and the process can exit, because
daemon threads, unlike those of an executor, are not joined at exit.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def run_in_daemon_thread(call: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Start `call` in a thread called `name`; the future gets its result or exception."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_retrieve_exception)

    def settle(set_outcome: Callable[[], None]) -> None:
        if not future.done():
            set_outcome()

    def run() -> None:
        try:
            result = call()
        except Exception as error:
            reason = error
            set_outcome = lambda: future.set_exception(reason)  # noqa: E731
        else:
            set_outcome = lambda: future.set_result(result)  # noqa: E731
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle, set_outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _retrieve_exception(future: "asyncio.Future[T]") -> None:
    """Mark the exception as retrieved: asyncio would warn of one that arrives after the caller stopped waiting."""
    if not future.cancelled():
        future.exception()
