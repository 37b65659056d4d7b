"""Points are found while pods print, and a crash at any moment neither loses nor doubles one."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from tests.conftest import LoopRun

from stoker.controller.collect.logs import LogCollector
from stoker.controller.collect.training import TrainingCollector
from stoker.domain.clock import SystemClock
from stoker.domain.cluster.engine_access import LogLine
from stoker.domain.cluster.resources import Resources
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.metrics.training import TrainingPoint
from stoker.domain.workload.pod import Pod
from stoker.engines.model import LogRef
from stoker.store.db.base import Store, TransactionFn
from stoker.store.telemetry import log_chunks, training
from stoker.store.workloads import pods

JOB = "job"
POD = Pod(
    uid="pod",
    workload_uid=JOB,
    name="job-0",
    attempt=1,
    revision=1,
    rank=0,
    node="n",
    resources=Resources(),
    created_at=0,
)
LINES = [LogLine(1000 + n, f"step={n} loss={n / 8}" if n % 2 else "nothing", (n + 1) * 10) for n in range(40)]
EXPECTED = [(n, n / 8) for n in range(1, 40, 2)]


class LogEngine:
    """An engine of which only the log is asked."""

    def __init__(self, lines: list[LogLine]) -> None:
        self.lines = lines
        self.news: asyncio.Queue[str] = asyncio.Queue()

    async def read_logs(self, source: LogRef, cursor: int, limit: int) -> list[LogLine]:
        return [line for line in self.lines if line.position > cursor][:limit]

    async def log_activity(self) -> AsyncGenerator[LogRef]:
        while True:
            yield LogRef(await self.news.get())


def log_collector(store: Store, engine: Any) -> LogCollector:
    return LogCollector(store, engine, SystemClock(), 10**9)


def fail_write(monkeypatch: pytest.MonkeyPatch, store: Store, number: int) -> None:
    """Let the write of this number, counted from now, fail, whichever way it is written."""
    count = 0

    def counting(
        write: Callable[[TransactionFn[Any]], Awaitable[Any]],
    ) -> Callable[[TransactionFn[Any]], Awaitable[Any]]:
        async def counted(change: TransactionFn[Any]) -> Any:
            nonlocal count
            count += 1
            if count == number:
                raise StokerError(ErrorCode.UNAVAILABLE, "The disk is gone.")
            return await write(change)

        return counted

    ways = {"write": store.write, "write_inline": store.write_inline}
    for name, write in ways.items():
        monkeypatch.setattr(store, name, counting(write))


def read(store: Store, loop_run: LoopRun) -> list[tuple[int | None, float]]:
    points = loop_run(store.read(lambda tx: training.read_points(tx, JOB, 0, 2**60)))
    rows: list[TrainingPoint] = list(points.iter_points())
    return [(point.step, point.value) for point in rows]


def feed(store: Store, loop_run: LoopRun, lines: list[LogLine], *, flush: bool = True) -> None:
    async def work() -> None:
        collector = TrainingCollector(store)
        await collector.feed(POD, lines)
        if flush:
            await collector.flush()

    loop_run(work())


def test_lines_that_come_again_after_a_crash_are_not_counted_twice(store: Store, loop_run: LoopRun) -> None:
    feed(store, loop_run, LINES[:20])
    feed(store, loop_run, LINES[:30], flush=False)
    feed(store, loop_run, LINES[10:])
    assert read(store, loop_run) == EXPECTED


def test_points_are_written_before_the_log_that_they_are_from(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines whose log was kept are never read again; those whose points were kept are, and count once."""
    monkeypatch.setattr(pods, "get", lambda _tx, _uid: POD)
    fail_write(monkeypatch, store, 2)

    async def work() -> None:
        with pytest.raises(StokerError):
            await log_collector(store, LogEngine(LINES)).drain([POD])
        kept = await store.read(
            lambda tx: (log_chunks.collected_position(tx, "pod"), training.parsed_position(tx, JOB, "pod"))
        )
        assert kept == (0, LINES[-1].position)
        await log_collector(store, LogEngine(LINES)).drain([POD])
        assert await store.read(lambda tx: log_chunks.collected_position(tx, "pod")) == LINES[-1].position

    loop_run(work())
    assert read(store, loop_run) == EXPECTED


def test_a_pod_that_prints_is_heard_without_its_log_being_written(
    store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "get", lambda _tx, _uid: POD)
    engine = LogEngine(LINES)

    async def work() -> None:
        running = asyncio.create_task(log_collector(store, engine).run())
        engine.news.put_nowait("pod")
        async with asyncio.timeout(10):
            while not await store.read(lambda tx: training.parsed_position(tx, JOB, "pod")):
                await asyncio.sleep(0.01)
        assert await store.read(lambda tx: log_chunks.collected_position(tx, "pod")) == 0
        running.cancel()
        await asyncio.wait([running])

    loop_run(work())
    assert read(store, loop_run) == EXPECTED


def test_a_write_that_failed_is_made_up_for(store: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_write(monkeypatch, store, 1)

    async def work() -> None:
        collector = TrainingCollector(store)
        await collector.feed(POD, LINES[:20])
        with pytest.raises(StokerError):
            await collector.flush()
        await collector.feed(POD, LINES[20:])
        await collector.flush()

    loop_run(work())
    assert read(store, loop_run) == EXPECTED


def test_whoever_is_cancelled_while_it_writes_writes_nothing_twice(store: Store, loop_run: LoopRun) -> None:
    async def work() -> None:
        collector = TrainingCollector(store)
        await collector.feed(POD, LINES[:20])
        flushing = asyncio.create_task(collector.flush())
        await asyncio.sleep(0)
        flushing.cancel()
        await asyncio.wait([flushing])
        await collector.feed(POD, LINES[20:])
        await collector.flush()

    loop_run(work())
    assert read(store, loop_run) == EXPECTED


def test_a_flood_is_parsed_beside_the_event_loop_and_written_as_it_goes(store: Store, loop_run: LoopRun) -> None:
    flood = [LogLine(n, f"step={n} loss=0.5 lr=0.1", n + 1) for n in range(5000)]

    async def work() -> int:
        collector = TrainingCollector(store)
        await collector.feed(POD, flood)
        return len((await store.read(lambda tx: training.read_points(tx, JOB, 0, 2**60))).at)

    assert loop_run(work()) == 10_000
