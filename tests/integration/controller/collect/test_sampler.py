"""The sampler on a real store, with sources that answer, fail and hang."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.conftest import LoopRun
from tests.engine.sampling.conftest import CLUSTER, Told, gpu_node
from tests.readings import to_real

from stoker.controller.news import News
from stoker.controller.sampler import Sampler
from stoker.domain.clock import SystemClock
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.live import GpuColumns, NodeNow, Overview, Part
from stoker.domain.node import Node
from stoker.domain.readings import PodUse
from stoker.store import live_views, nodes, pod_samples, samples
from stoker.store.base import Store
from stoker.telemetry import roster
from stoker.telemetry.chunks import unpack

PERIOD_SECONDS = 0.1
PATIENCE_SECONDS = 20


class Ahead:
    """The machine's clock, set forward."""

    ahead_ms = 0

    def now(self) -> int:
        return SystemClock().now() + self.ahead_ms


class Lab:
    """One sampler at work."""

    def __init__(self, store: Store, source: Told) -> None:
        self.store = store
        self.source = source
        self.news = News()
        self.clock = Ahead()

    async def during(self, story: Callable[["Lab"], Awaitable[None]]) -> None:
        sampler = Sampler(self.store, self.source, CLUSTER, self.clock, self.news, PERIOD_SECONDS)
        task = asyncio.create_task(sampler.run())
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await story(self)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def overview(self) -> Overview | None:
        view = await self.store.peek(lambda tx: live_views.read(tx, CLUSTER, Part.OVERVIEW))
        return live_views.decode_overview(view.body) if view else None

    async def nodes(self) -> list[NodeNow]:
        view = await self.store.peek(lambda tx: live_views.read(tx, CLUSTER, Part.NODES))
        return live_views.decode_nodes(view.body) if view else []

    async def gpus(self) -> GpuColumns | None:
        view = await self.store.peek(lambda tx: live_views.read(tx, CLUSTER, Part.GPUS))
        return live_views.decode_gpus(view.body) if view else None

    async def until(self, holds: Callable[[Overview], bool]) -> Overview:
        while True:
            now = await self.overview()
            if now is not None and holds(now):
                return now
            await asyncio.sleep(0.01)

    async def ticks(self) -> list[samples.Tick]:
        return await self.store.peek(lambda tx: samples.ticks(tx, CLUSTER, 0, 1 << 62))


def play(store: Store, loop_run: LoopRun, story: Callable[[Lab], Awaitable[None]]) -> Lab:
    lab = Lab(store, Told("n1", "n2"))
    loop_run(lab.during(story))
    return lab


def test_readings_are_kept_in_step_with_the_clock_and_in_the_order_of_the_roster(
    file: Store, loop_run: LoopRun
) -> None:
    async def story(lab: Lab) -> None:
        while len(await lab.ticks()) < 3:
            await asyncio.sleep(0.02)

    lab = play(file, loop_run, story)
    ticks = loop_run(lab.ticks())
    assert all(tick.at % 100 == 0 for tick in ticks)
    assert len({tick.roster_id for tick in ticks}) == 1
    body = loop_run(file.read(lambda tx: samples.roster(tx, ticks[0].roster_id)))
    assert roster.decode(body).nodes == ("n1", "n2")
    ((_, data), *_) = loop_run(file.read(lambda tx: samples.stripes(tx, CLUSTER, 0, 0, 1 << 62)))
    assert {str(metric): to_real(metric, array)[:, 0].tolist() for metric, array in unpack(data).items()} == {
        "utilization": [0.5] * 4,
        "memory_used": [20.0 * (1 << 30)] * 4,
        "power": [350.0] * 4,
        "temperature": [40.0] * 4,
    }


def test_what_pods_take_is_kept_with_the_readings(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        lab.source.pods = (PodUse("p", 1500, 2**20),)
        while True:
            found = await lab.store.read(lambda tx: list(pod_samples.blocks(tx, CLUSTER, ["p"], 0, 1 << 62)))
            if found and len(found[0].at) > 1:
                break
            await asyncio.sleep(0.02)
        assert all(at % 100 == 0 for at in found[0].at)
        assert found[0].columns["cpu_milli"][0] == 1500
        assert found[0].columns["memory_bytes"][0] == 2**20

    play(file, loop_run, story)


def test_a_source_that_fails_is_shown_as_stale_and_its_last_word_stays(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        await lab.until(lambda now: not now.source.stale)
        lab.source.failing = True
        stale = await lab.until(lambda now: now.source.stale)
        assert stale.source.message == "The source told is down."
        assert stale.source.read_at is not None
        assert stale.power_watts == 1400.0
        kept = len(await lab.ticks())
        await lab.until(lambda now: now.at > stale.at)
        assert len(await lab.ticks()) == kept
        lab.source.failing = False
        lab.source.utilization = 1.0
        back = await lab.until(lambda now: not now.source.stale)
        assert (back.power_watts, back.source.message) == (2800.0, "")

    play(file, loop_run, story)


def test_after_a_start_a_dead_source_is_as_old_as_what_it_said_last(file: Store, loop_run: LoopRun) -> None:
    last: list[int | None] = []

    async def before(lab: Lab) -> None:
        last.append((await lab.until(lambda now: not now.source.stale)).source.read_at)

    async def after(lab: Lab) -> None:
        lab.source.failing = True
        stale = await lab.until(lambda now: now.source.message == "The source told is down.")
        assert stale.source.read_at is not None
        assert last[0] is not None
        assert last[0] <= stale.source.read_at <= last[0] + PATIENCE_SECONDS * 1000

    play(file, loop_run, before)
    play(file, loop_run, after)


def test_a_source_that_hangs_holds_up_nothing_and_is_never_asked_twice_at_once(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        lab.source.hanging = True
        stale = await lab.until(lambda now: "has not answered" in now.source.message)
        assert stale.source.read_at is None
        assert stale.source.asked_at is not None
        assert (stale.nodes, stale.measured_gpus, stale.power_watts) == (2, 0, None)
        asked = lab.source.asked
        while lab.source.asked < asked + 3:
            await asyncio.sleep(0.02)
        lab.source.hanging = False
        await lab.until(lambda now: not now.source.stale)

    assert play(file, loop_run, story).source.most_at_once == 1


def test_what_was_read_long_ago_is_not_known_any_more(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        await lab.until(lambda now: bool(now.power_watts))
        lab.source.failing = True
        lab.clock.ahead_ms = 301_000
        unknown = await lab.until(lambda now: now.power_watts is None)
        assert unknown.source.stale
        gpus = await lab.gpus()
        assert gpus is not None
        assert set(gpus.utilization) == {None}
        assert set(gpus.memory_total_bytes) == {80 << 30}

    play(file, loop_run, story)


def test_nodes_that_change_between_two_readings_are_shown_without_waiting_for_one(
    file: Store, loop_run: LoopRun
) -> None:
    changed = Node("n2", 64_000, 1, gpu_node("n2", 2).devices, ready=False)

    async def story(lab: Lab) -> None:
        lab.source.hanging = True
        await lab.until(lambda now: now.healthy_nodes == 2)
        lab.news.nodes([changed])
        await lab.until(lambda now: now.faulty_nodes == 1)
        assert [node.ready for node in await lab.nodes()] == [True, False]
        await lab.store.write(lambda tx: nodes.put(tx, CLUSTER, [gpu_node("n3", 4)], 0))
        lab.news.everything()
        await lab.until(lambda now: now.nodes == 3)

    play(file, loop_run, story)


def test_a_cluster_whose_gpus_change_gets_another_roster(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        while not await lab.ticks():
            await asyncio.sleep(0.02)
        lab.news.nodes([gpu_node("n3", 1)])
        while len({tick.roster_id for tick in await lab.ticks()}) < 2:
            await asyncio.sleep(0.02)

    play(file, loop_run, story)


def test_a_part_that_has_not_changed_is_not_published_again(file: Store, loop_run: LoopRun) -> None:
    async def story(lab: Lab) -> None:
        first = await lab.until(lambda now: not now.source.stale)
        await lab.until(lambda now: now.at > first.at + 300)

    play(file, loop_run, story)
    versions = [loop_run(file.peek(lambda tx, p=part: live_views.version(tx, CLUSTER, p))) for part in Part]
    assert versions[0] > 3
    assert max(versions[1:]) <= 3


def test_on_a_disk_that_runs_full_readings_are_shown_and_not_kept(
    file: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise StokerError(ErrorCode.BACKEND_DOWN, "There is no room.")

    monkeypatch.setattr(file, "check_room", full)

    async def story(lab: Lab) -> None:
        first = await lab.until(lambda now: not now.source.stale)
        await lab.until(lambda now: now.at > first.at + 300)
        assert await lab.ticks() == []

    play(file, loop_run, story)
