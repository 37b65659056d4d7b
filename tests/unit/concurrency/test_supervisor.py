"""Loops that fail are started again, counted and shown; what means that they have to stop is passed on."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.concurrency.supervisor import (
    FAILURE_THRESHOLD,
    MAX_RESTART_DELAY_SECONDS,
    RECOVERED_AFTER_MS,
    LoopRegistry,
    LoopState,
    Supervisor,
)
from stoker.domain.errors import ErrorCode, StokerError


class StandDownError(Exception):
    pass


class SupervisedLoop:
    """One loop under supervision, which fails as it is told."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.loops = LoopRegistry()
        self.error: BaseException | None = None
        self.runs = 0
        self.end = asyncio.Event()

    async def loop(self) -> None:
        self.runs += 1
        await self.end.wait()
        self.end.clear()
        if self.error is not None:
            raise self.error

    @property
    def state(self) -> LoopState:
        (state,) = self.loops.list_states()
        return state

    async def let_end(self) -> None:
        """Until the loop has ended and waits for its next start."""
        runs = self.runs
        self.end.set()
        while self.state.is_running and self.runs == runs:
            await asyncio.sleep(0)
        while not self.clock.sleepers:
            await asyncio.sleep(0)

    async def let_restart(self) -> None:
        self.clock.advance(MAX_RESTART_DELAY_SECONDS)
        while not self.state.is_running:
            await asyncio.sleep(0)


def supervised(loop_run: LoopRun, live: Callable[[SupervisedLoop], Coroutine[Any, Any, None]]) -> None:
    async def both() -> None:
        bench = SupervisedLoop()
        supervisor = Supervisor(bench.clock, bench.loops, "east", stop_on=(StandDownError,))
        task = asyncio.create_task(supervisor.run("queue", bench.loop))
        while not bench.runs:
            await asyncio.sleep(0)
        await live(bench)
        task.cancel()
        await asyncio.wait([task])

    loop_run(both())


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OverflowError("int too large"), "The server's log has the cause."),
        (StokerError(ErrorCode.UNAVAILABLE, "The disk is full."), "The disk is full."),
        (ExceptionGroup("", [ExceptionGroup("", [StokerError(ErrorCode.UNAVAILABLE, "Gone.")])]), "Gone."),
        (None, "It returned."),
    ],
)
def test_whatever_a_loop_ends_of_it_is_started_again(
    loop_run: LoopRun, error: Exception | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def live(bench: SupervisedLoop) -> None:
        bench.error = error
        with caplog.at_level(logging.WARNING, "stoker.supervisor"):
            await bench.let_end()
        assert (bench.state.restarts, bench.state.is_running, bench.state.reason) == (1, False, reason)
        await bench.let_restart()
        assert bench.runs == 2
        assert "loop queue of cluster east" in caplog.text

    supervised(loop_run, live)


def test_one_that_fails_again_and_again_is_failing_until_it_has_run_for_long(loop_run: LoopRun) -> None:
    async def live(bench: SupervisedLoop) -> None:
        bench.error = ValueError("no")
        for _ in range(FAILURE_THRESHOLD):
            assert not bench.state.is_failing(bench.clock.now())
            await bench.let_end()
            await bench.let_restart()
        assert bench.state.is_failing(bench.clock.now())
        assert f"The loop queue of cluster east has failed {FAILURE_THRESHOLD} times in a row" in bench.state.message
        bench.clock.advance(RECOVERED_AFTER_MS / 1000)
        assert not bench.state.is_failing(bench.clock.now())
        await bench.let_end()
        assert bench.state.failures == 1
        assert bench.state.restarts == FAILURE_THRESHOLD + 1

    supervised(loop_run, live)


@pytest.mark.parametrize("nested", [0, 1, 2])
def test_what_means_to_stop_is_raised_however_deep_it_lies(loop_run: LoopRun, nested: int) -> None:
    async def live() -> None:
        error: Exception = StandDownError()
        for _ in range(nested):
            error = ExceptionGroup("a group", [ValueError("beside it"), error])
        runs = 0

        async def loop() -> None:
            nonlocal runs
            runs += 1
            raise error

        loops = LoopRegistry()
        with pytest.raises(StandDownError):
            await Supervisor(ManualClock(), loops, stop_on=(StandDownError,)).run("queue", loop)
        assert runs == 1
        assert [(state.is_running, state.restarts) for state in loops.list_states()] == [(False, 0)]

    loop_run(live())
