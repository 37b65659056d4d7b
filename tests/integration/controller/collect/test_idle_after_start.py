"""Since when GPUs are idle, after a start: as long as they were before, whatever was published last."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping

import numpy as np
import pytest
from tests.conftest import LoopRun
from tests.engine.controller.lab import CLUSTER, PATIENCE, ControllerLab
from tests.engine.controller.pretend import PretendEngine, machine
from tests.engine.sampling.conftest import Told

from stoker.controller.sampler import Sampler
from stoker.domain.clock import HOUR_MS
from stoker.domain.live import Part
from stoker.domain.readings import Metric
from stoker.domain.resources import Resources
from stoker.domain.workload import Phase, Spec
from stoker.store import live_views, nodes, samples
from stoker.store.base import Store, Transaction
from stoker.telemetry import roster
from stoker.telemetry.chunks import encode_hour, encode_tick
from stoker.telemetry.idle_past import idle_past
from stoker.telemetry.idleness import UNSEEN_MS

PERIOD_SECONDS = 0.1
PERIOD_MS = 15_000
MINUTE_MS = 60_000
ALL_FOUR = Spec(resources=Resources(2000, 4000, 2**30), replicas=2, ttl_seconds=600)
Gpu = tuple[str, int]
Use = Callable[[int], float]


class Idle(ControllerLab):
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
        found = await self.read(lambda tx: idle_past(tx, CLUSTER, 0.01, now))
        return {(each.node, each.device): each.since for each in found}

    @contextlib.asynccontextmanager
    async def sampled(self, source: Told) -> AsyncGenerator[None]:
        """A server that has just begun to read."""
        self.news.everything()
        task = asyncio.create_task(
            Sampler(self.store, source, CLUSTER, self.clock, self.news, PERIOD_SECONDS).run(),
        )
        try:
            async with asyncio.timeout(PATIENCE):
                yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def shown(self) -> tuple[set[int | None], int | None]:
        """Since when each of the GPUs is idle, and the workload."""
        parts = (Part.GPUS, Part.CONSUMERS)
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
    of = roster.roster_of(nodes.of_cluster(transaction, CLUSTER))
    number = samples.roster_for(transaction, CLUSTER, roster.encode(of), of.gpus, 0)
    gpus = [(of.nodes[node], device) for node, device in zip(of.node.tolist(), of.device.tolist(), strict=True)]
    open_hour = ats[-1] // HOUR_MS * HOUR_MS
    for hour in sorted({at // HOUR_MS * HOUR_MS for at in ats}):
        mine = [at for at in ats if at // HOUR_MS * HOUR_MS == hour]
        values = {Metric.UTILIZATION: np.array([[used[gpu](at) for at in mine] for gpu in gpus])}
        if hour < open_hour:
            packed = encode_hour(np.array(mine), values)
            samples.add_chunks(transaction, CLUSTER, hour, number, packed, 0)
            continue
        for place, at in enumerate(mine):
            tick = {metric: array[:, place] for metric, array in values.items()}
            samples.add_tick(transaction, CLUSTER, at, number, encode_tick(tick))


def always(value: float) -> Use:
    return lambda _: value


@pytest.fixture
def lab(store: Store) -> Idle:
    return Idle(store, PretendEngine([machine("n1", 2), machine("n2", 2)]))


def test_kept_readings_say_since_when_a_gpu_is_idle(lab: Idle, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.begin()
        began = await lab.since()
        now = began + 5 * HOUR_MS
        ats = list(range(began // PERIOD_MS * PERIOD_MS - HOUR_MS, now, PERIOD_MS))
        worked = now - 3 * HOUR_MS
        await lab.keep(
            ats,
            {
                ("n1", 0): always(0.0),
                ("n1", 1): lambda at: 0.5 if at <= worked else 0.01,
                ("n2", 0): lambda at: np.nan if at % MINUTE_MS else 0.0,
                ("n2", 1): lambda at: 0.011 if at == ats[-1] else 0.0,
            },
        )
        first = next(at for at in ats if at >= began)
        assert await lab.past(now) == {
            ("n1", 0): first,
            ("n1", 1): next(at for at in ats if at > worked),
            ("n2", 0): next(at for at in ats if at >= began and at % MINUTE_MS == 0),
        }, "of what others did with a GPU before, nothing is said"
        assert await lab.past(ats[-1] + UNSEEN_MS + 1) == {}, "and nothing when nobody has looked for long"

    loop_run(story())


def test_a_time_that_nobody_read_does_not_count(lab: Idle, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.begin()
        began = await lab.since()
        now = began + 4 * HOUR_MS
        back = now - 90 * MINUTE_MS
        ats = [at for at in range(began // PERIOD_MS * PERIOD_MS, now, PERIOD_MS) if not 0 <= back - at < UNSEEN_MS]
        gone = {("n1", 1): always(np.nan), ("n2", 1): always(np.nan)}
        await lab.keep(ats, {("n1", 0): always(0.0), ("n2", 0): always(0.0), **gone})
        assert set((await lab.past(now)).items()) == {
            (gpu, next(at for at in ats if at > back)) for gpu in (("n1", 0), ("n2", 0))
        }

    loop_run(story())


def test_a_server_that_starts_again_shows_how_long_they_were_idle_before(lab: Idle, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.begin()
        idle = Told("n1", "n2")
        idle.utilization = 0.0
        async with lab.sampled(idle):
            gpus, workload = await lab.shown_idle()
            assert gpus == {workload}
            while not await lab.read(lambda tx: samples.ticks(tx, CLUSTER, 0, 1 << 62)):
                await asyncio.sleep(0.01)
        await asyncio.sleep(3 * PERIOD_SECONDS)
        async with lab.sampled(idle):
            await lab.shown_idle()
            assert await lab.shown() == (gpus, workload)
        down = Told("n1", "n2")
        down.failing = True
        async with lab.sampled(down):
            while await lab.shown() != ({None}, None):
                await asyncio.sleep(0.01)
        async with lab.sampled(idle):
            known, again = await lab.shown_idle()
            assert known == {again}
            assert workload - PERIOD_SECONDS * 1000 <= again <= workload + 2 * PERIOD_SECONDS * 1000

    loop_run(story())
