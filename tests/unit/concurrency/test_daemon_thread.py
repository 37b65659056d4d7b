"""A call in a daemon thread gives its result or its error, and hangs nobody when it never returns."""

import asyncio
import threading

import pytest

from stoker.concurrency.daemon_thread import run_in_daemon_thread


def test_the_result_and_the_error_of_a_call_reach_who_waits_for_it() -> None:
    async def main() -> None:
        assert await run_in_daemon_thread(lambda: threading.current_thread().name, "reader") == "reader"
        with pytest.raises(ZeroDivisionError):
            await run_in_daemon_thread(lambda: 1 / 0, "reader")

    asyncio.run(main())


def test_a_call_that_hangs_keeps_neither_the_loop_nor_the_process() -> None:
    started, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        started.set()
        release.wait()

    async def main() -> None:
        future = run_in_daemon_thread(hang, "stuck")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(future), 0.01)

    asyncio.run(main())
    assert started.wait(10)
    assert threads[0].daemon
    release.set()  # the loop is closed by now: the late result is dropped without an error
    threads[0].join()
