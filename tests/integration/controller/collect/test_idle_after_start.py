"""Since when GPUs are idle, after a start: as long as they were before, whatever was published last."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping

import numpy as np
import pytest
from tests.conftest import LoopRun
from tests.integration.controller.collect.conftest import ScriptedCollector
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, TIMEOUT_SECONDS, ControllerHarness, new_supervisor

from stoker.controller.collect.sampler import Sampler
from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.live_view import LiveViewKind
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.store.cluster import live_views, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples
from stoker.telemetry.idle.backfill import backfill_idle
from stoker.telemetry.tsdb import device_index
from stoker.telemetry.tsdb.codec import encode_hour, encode_tick, pack_tick, quantize, quantize_ages

PERIOD_SECONDS = 0.1
PERIOD_MS = 15_000
MINUTE_MS = 60_000
ALL_FOUR = Spec(resources=Resources(2000, 4000, 2**30), replicas=2, ttl_seconds=600)
Gpu = tuple[str, int]
Use = Callable[[int], float]


class IdleStartHarness(ControllerHarness):
    """One workload that holds all four GPUs of two nodes."""

    async def begin(self) -> None:
        await self.found()
        async with self.at_work():
            self.uid = await self.submit(spec=ALL_FOUR)
            await self.until(self.uid, lambda found: found.phase is Phase.RUNNING)

    async def since(self) -> int:
        """The moment from which on what is read is its own."""
        return (await self.workload(self.uid)).running_since or 0

    async def keep(self, ats: list[int], used: Mapping[Gpu, Use]) -> None:
        """Readings at these moments: hours that are over in segments, the last one tick by tick."""
        await self.store.write(lambda tx: keep(tx, ats, used))

    async def past(self, now: int) -> dict[Gpu, int]:
        found = await self.read(lambda tx: backfill_idle(tx, CLUSTER, 1.0, now))
        return {(each.node, each.device): each.since for each in found}

    @contextlib.asynccontextmanager
    async def sampled(self, source: ScriptedCollector) -> AsyncGenerator[None]:
        """A server that has just begun to read."""
        self.news.mark_all()
        supervisor = new_supervisor(self.clock)
        sampler = Sampler(self.store, source, CLUSTER, self.clock, self.news, supervisor, PERIOD_SECONDS)
        task = asyncio.create_task(sampler.run())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def shown(self) -> tuple[set[int | None], int | None]:
        """Since when each of the GPUs is idle, and the workload."""
        parts = (LiveViewKind.GPUS, LiveViewKind.CONSUMERS)
        gpus, consumers = await self.read(lambda tx: [live_views.read(tx, CLUSTER, part) for part in parts])
        if gpus is None or consumers is None:
            return {None}, None
        found = live_views.decode_consumers(consumers.body)
        return set(live_views.decode_gpus(gpus.body).idle_since), found[0].idle_since if found else None

    async def shown_idle(self) -> tuple[set[int | None], int]:
        while True:
            gpus, workload = await self.shown()
            if workload is not None:
                return gpus, workload
            await asyncio.sleep(0.01)


def keep(transaction: Transaction, ats: list[int], used: Mapping[Gpu, Use]) -> None:
    of = device_index.build_device_index(nodes.of_cluster(transaction, CLUSTER))
    number = gpu_samples.get_or_add_device_index(transaction, CLUSTER, device_index.encode(of), of.gpu_count, 0)
    gpus = [(of.nodes[node], device) for node, device in zip(of.node.tolist(), of.device.tolist(), strict=True)]
    open_hour = ats[-1] // HOUR_MS * HOUR_MS
    for hour in sorted({at // HOUR_MS * HOUR_MS for at in ats}):
        mine = [at for at in ats if at // HOUR_MS * HOUR_MS == hour]
        values = {GpuMetric.UTILIZATION: np.array([[used[gpu](at) for at in mine] for gpu in gpus])}
        if hour < open_hour:
            packed = encode_hour(np.array(mine), values)
            gpu_samples.add_block(transaction, CLUSTER, hour, number, packed, 0)
            continue
        for place, at in enumerate(mine):
            tick = {metric: array[:, place] for metric, array in values.items()}
            gpu_samples.add_tick(transaction, CLUSTER, at, number, encode_tick(tick))


def always(value: float) -> Use:
    return lambda _: value


@pytest.fixture
def harness(store: Store) -> IdleStartHarness:
    return IdleStartHarness(store, FakeEngine([machine("n1", 2), machine("n2", 2)]))


def test_kept_readings_say_since_when_a_gpu_is_idle(harness: IdleStartHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.begin()
        began = await harness.since()
        now = began + 5 * HOUR_MS
        ats = list(range(began // PERIOD_MS * PERIOD_MS - HOUR_MS, now, PERIOD_MS))
        worked = now - 3 * HOUR_MS
        await harness.keep(
            ats,
            {
                ("n1", 0): always(0.0),
                ("n1", 1): lambda at: 0.5 if at <= worked else 0.01,
                ("n2", 0): lambda at: np.nan if at % MINUTE_MS else 0.0,
                ("n2", 1): lambda at: 0.011 if at == ats[-1] else 0.0,
            },
        )
        first = next(at for at in ats if at >= began)
        assert await harness.past(now) == {
            ("n1", 0): first,
            ("n1", 1): next(at for at in ats if at > worked),
            ("n2", 0): next(at for at in ats if at >= began and at % MINUTE_MS == 0),
        }, "of what others did with a GPU before, nothing is said"
        assert await harness.past(ats[-1] + MAX_SAMPLE_GAP_MS + 1) == {}, "and nothing when nobody has looked for long"

    loop_run(story())


@pytest.mark.parametrize("percent", [0.7, 7, 14, 28, 55, 56])
def test_a_reading_that_is_exactly_the_threshold_is_idle(
    harness: IdleStartHarness, loop_run: LoopRun, percent: float
) -> None:
    async def story() -> None:
        await harness.begin()
        began = await harness.since()
        ats = list(range(began // PERIOD_MS * PERIOD_MS + PERIOD_MS, began + 10 * MINUTE_MS, PERIOD_MS))
        steps = round(percent * 100)
        idle, busy = always(steps / 10_000), always((steps + 1) / 10_000)
        await harness.keep(ats, {("n1", 0): idle, ("n1", 1): busy, ("n2", 0): idle, ("n2", 1): busy})
        found = await harness.read(lambda tx: backfill_idle(tx, CLUSTER, percent, ats[-1] + 1))
        assert {(each.node, each.device) for each in found} == {("n1", 0), ("n2", 0)}

    loop_run(story())


def test_a_sample_that_was_taken_before_the_workload_had_its_gpus_is_not_its_idle_time(
    harness: IdleStartHarness, loop_run: LoopRun
) -> None:
    def old_samples(tx: Transaction, ats: list[int], taken: int) -> None:
        of = device_index.build_device_index(nodes.of_cluster(tx, CLUSTER))
        number = gpu_samples.get_or_add_device_index(tx, CLUSTER, device_index.encode(of), of.gpu_count, 0)
        steps = {GpuMetric.UTILIZATION: quantize(GpuMetric.UTILIZATION, np.zeros(of.gpu_count))}
        for at in ats:
            ages = np.where(np.arange(of.gpu_count) == 0, at - taken, 0)
            gpu_samples.add_tick(tx, CLUSTER, at, number, pack_tick(steps, quantize_ages(ages)))

    async def story() -> None:
        await harness.begin()
        began = await harness.since()
        ats = list(range(began // PERIOD_MS * PERIOD_MS + PERIOD_MS, began + 4 * MINUTE_MS, PERIOD_MS))
        await harness.store.write(lambda tx: old_samples(tx, ats, began - 1))
        found = await harness.past(ats[-1] + 1)
        assert found == {("n1", 1): ats[0], ("n2", 0): ats[0], ("n2", 1): ats[0]}

    loop_run(story())


def test_a_time_that_nobody_read_does_not_count(harness: IdleStartHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.begin()
        began = await harness.since()
        now = began + 4 * HOUR_MS
        back = now - 90 * MINUTE_MS
        ats = [
            at for at in range(began // PERIOD_MS * PERIOD_MS, now, PERIOD_MS) if not 0 <= back - at < MAX_SAMPLE_GAP_MS
        ]
        gone = {("n1", 1): always(np.nan), ("n2", 1): always(np.nan)}
        await harness.keep(ats, {("n1", 0): always(0.0), ("n2", 0): always(0.0), **gone})
        assert set((await harness.past(now)).items()) == {
            (gpu, next(at for at in ats if at > back)) for gpu in (("n1", 0), ("n2", 0))
        }

    loop_run(story())


def test_a_server_that_starts_again_shows_how_long_they_were_idle_before(
    harness: IdleStartHarness, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await harness.begin()
        idle = ScriptedCollector("n1", "n2")
        idle.utilization = 0.0
        async with harness.sampled(idle):
            gpus, workload = await harness.shown_idle()
            assert gpus == {workload}
            while not await harness.read(lambda tx: gpu_samples.list_ticks(tx, CLUSTER, 0, 1 << 62)):
                await asyncio.sleep(0.01)
        await asyncio.sleep(3 * PERIOD_SECONDS)
        async with harness.sampled(idle):
            await harness.shown_idle()
            assert await harness.shown() == (gpus, workload)
        down = ScriptedCollector("n1", "n2")
        down.failing = True
        async with harness.sampled(down):
            while await harness.shown() != ({None}, None):
                await asyncio.sleep(0.01)
        async with harness.sampled(idle):
            known, again = await harness.shown_idle()
            assert known == {again}
            assert workload - PERIOD_SECONDS * 1000 <= again <= workload + 2 * PERIOD_SECONDS * 1000

    loop_run(story())
