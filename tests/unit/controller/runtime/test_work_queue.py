"""The work queue keeps the guarantees of client-go's workqueue."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.clock import ManualClock

from stoker.controller.runtime.work_queue import INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, WorkQueue


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 10))


async def settle() -> None:
    """Let tasks that were just created or woken run."""
    for _ in range(5):
        await asyncio.sleep(0)


def is_empty(queue: WorkQueue) -> bool:
    return not queue._ready


def test_keys_are_drained_in_the_order_in_which_they_were_enqueued_each_once() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        queue.enqueue(["b", "a", "b"])
        queue.enqueue(["c", "a"])
        assert await queue.drain(2) == ["b", "a"]
        assert await queue.drain(2) == ["c"]
        assert is_empty(queue)

    run(live())


def test_drain_waits_until_a_key_is_ready() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        drained = asyncio.create_task(queue.drain(10))
        await settle()
        assert not drained.done()
        queue.enqueue(["a"])
        assert await drained == ["a"]

    run(live())


def test_a_key_enqueued_while_in_flight_is_processed_again_afterwards_and_not_before() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        queue.enqueue(["a"])
        await queue.drain(1)
        assert not queue.is_stale("a")
        queue.enqueue(["a", "a"])
        assert queue.is_stale("a")
        assert is_empty(queue)
        queue.done(["a"])
        assert await queue.drain(10) == ["a"]
        queue.done(["a"])
        assert is_empty(queue)

    run(live())


def test_a_key_can_be_put_in_flight_out_of_turn_but_by_one_worker_only() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        assert queue.acquire("a")
        assert not queue.is_stale("a")
        assert not queue.acquire("a")
        queue.done(["a"])
        assert await queue.drain(10) == ["a"]

    run(live())


def test_a_ready_key_that_is_put_in_flight_out_of_turn_is_processed_again() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        queue.enqueue(["a"])
        assert queue.acquire("a")
        assert queue.is_stale("a")
        drained = asyncio.create_task(queue.drain(10))
        await settle()
        assert not drained.done()
        queue.done(["a"])
        assert await drained == ["a"]

    run(live())


def test_a_delayed_key_becomes_ready_when_the_clock_says_so() -> None:
    async def live() -> None:
        clock = ManualClock()
        queue = WorkQueue(clock)
        queue.enqueue_after(5, ["a", "b"])
        await settle()
        clock.advance(4.9)
        await settle()
        assert is_empty(queue)
        clock.advance(0.1)
        assert await queue.drain(10) == ["a", "b"]

    run(live())


def test_every_failure_doubles_the_delay_up_to_a_limit_until_it_is_forgotten() -> None:
    async def live() -> None:
        clock = ManualClock()
        queue = WorkQueue(clock)

        async def delay() -> float:
            began = clock.now()
            queue.enqueue_rate_limited("a")
            await settle()
            while is_empty(queue):
                clock.advance(1)
                await settle()
            queue.done(await queue.drain(1))
            return (clock.now() - began) / 1000

        assert [await delay() for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
        assert MAX_BACKOFF_SECONDS == 60
        queue.forget("a")
        assert await delay() == INITIAL_BACKOFF_SECONDS

    run(live())


def test_the_delays_of_keys_are_independent() -> None:
    async def live() -> None:
        clock = ManualClock()
        queue = WorkQueue(clock)
        queue.enqueue_rate_limited("a")
        queue.enqueue_rate_limited("a")
        queue.enqueue_rate_limited("b")
        await settle()
        clock.advance(INITIAL_BACKOFF_SECONDS)
        assert await queue.drain(10) == ["a", "b"]

    run(live())


def test_stop_makes_delayed_keys_ready_at_once_and_leaves_no_task_behind() -> None:
    async def live() -> None:
        queue = WorkQueue(ManualClock())
        tasks_before = asyncio.all_tasks()
        queue.enqueue_after(5, ["a"])
        queue.stop()
        await settle()
        assert await queue.drain(10) == ["a"]
        assert asyncio.all_tasks() == tasks_before

    run(live())
