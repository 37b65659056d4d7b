"""The sampler on a real store, with sources that answer, fail and hang."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from tests.clock import FastClock
from tests.conftest import LoopRun
from tests.gpu_samples import to_real
from tests.integration.controller.collect.conftest import CLUSTER, GIB, ScriptedCollector, gpu_node
from tests.integration.controller.harness import new_supervisor

from stoker.controller.collect.sampler import Sampler
from stoker.controller.runtime.dirty_set import DirtySet
from stoker.domain.cluster.live_view import ClusterSummary, GpuColumns, LiveNode, LiveViewKind
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.quantity import MIB
from stoker.domain.cluster.samples import GpuFault, PodUsage
from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.cluster import gpu_availability, live_views, nodes
from stoker.store.db.base import Store, Transaction
from stoker.store.telemetry import gpu_samples, pod_samples
from stoker.telemetry.tsdb import device_index
from stoker.telemetry.tsdb.codec import unpack

PERIOD_SECONDS = 1.0
"""By a clock that runs fast."""
TIMEOUT_SECONDS = 20


class SamplerHarness:
    """One sampler at work."""

    def __init__(self, store: Store, source: ScriptedCollector, clock: FastClock) -> None:
        self.store = store
        self.source = source
        self.news = DirtySet()
        self.clock = clock

    async def during(self, story: Callable[["SamplerHarness"], Awaitable[None]]) -> None:
        supervisor = new_supervisor(self.clock)
        sampler = Sampler(self.store, self.source, CLUSTER, self.clock, self.news, supervisor, PERIOD_SECONDS)
        task = asyncio.create_task(sampler.run())
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await story(self)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def overview(self) -> ClusterSummary | None:
        view = await self.store.read_inline(lambda tx: live_views.read(tx, CLUSTER, LiveViewKind.OVERVIEW))
        return live_views.decode_overview(view.body) if view else None

    async def nodes(self) -> list[LiveNode]:
        view = await self.store.read_inline(lambda tx: live_views.read(tx, CLUSTER, LiveViewKind.NODES))
        return live_views.decode_nodes(view.body) if view else []

    async def gpus(self) -> GpuColumns | None:
        view = await self.store.read_inline(lambda tx: live_views.read(tx, CLUSTER, LiveViewKind.GPUS))
        return live_views.decode_gpus(view.body) if view else None

    async def until(self, holds: Callable[[ClusterSummary], bool]) -> ClusterSummary:
        while True:
            now = await self.overview()
            if now is not None and holds(now):
                return now
            await asyncio.sleep(0.001)

    async def ticks(self) -> list[gpu_samples.Tick]:
        return await self.store.read_inline(lambda tx: gpu_samples.list_ticks(tx, CLUSTER, 0, 1 << 62))


def play(store: Store, loop_run: LoopRun, story: Callable[[SamplerHarness], Awaitable[None]]) -> SamplerHarness:
    clock = FastClock()
    harness = SamplerHarness(store, ScriptedCollector("n1", "n2", clock=clock), clock)
    loop_run(harness.during(story))
    return harness


def test_readings_are_kept_in_step_with_the_clock_and_in_the_order_of_the_roster(
    file: Store, loop_run: LoopRun
) -> None:
    async def story(harness: SamplerHarness) -> None:
        while len(await harness.ticks()) < 3:
            await asyncio.sleep(0.001)

    harness = play(file, loop_run, story)
    ticks = loop_run(harness.ticks())
    assert all(tick.at % 1000 == 0 for tick in ticks)
    assert len({tick.device_index_id for tick in ticks}) == 1
    body = loop_run(file.read(lambda tx: gpu_samples.read_device_index(tx, ticks[0].device_index_id)))
    assert device_index.decode(body).nodes == ("n1", "n2")
    ((_, data), *_) = loop_run(file.read(lambda tx: gpu_samples.read_stripes(tx, CLUSTER, 0, 0, 1 << 62)))
    assert {str(metric): to_real(metric, array)[:, 0].tolist() for metric, array in unpack(data).items()} == {
        "utilization": [0.5] * 4,
        "memory_used": [20.0 * (1 << 30)] * 4,
        "power": [350.0] * 4,
        "temperature": [40.0] * 4,
    }


def test_what_pods_take_is_kept_with_the_readings(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: SamplerHarness) -> None:
        harness.source.pods = (PodUsage("p", 1500, 2**20),)
        while True:
            found = await harness.store.read(lambda tx: list(pod_samples.read_blocks(tx, CLUSTER, ["p"], 0, 1 << 62)))
            if found and len(found[0].at) > 1:
                break
            await asyncio.sleep(0.001)
        assert all(at % 1000 == 0 for at in found[0].at)
        assert found[0].columns["cpu_milli"][0] == 1500
        assert found[0].columns["memory_bytes"][0] == 2**20

    play(file, loop_run, story)


def test_a_source_that_fails_is_shown_as_stale_and_its_last_word_stays(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: SamplerHarness) -> None:
        await harness.until(lambda now: not now.source.stale)
        harness.source.failing = True
        stale = await harness.until(lambda now: now.source.stale)
        assert stale.source.message == "The source told is down."
        assert stale.source.read_at is not None
        assert stale.power_watts == 1400.0
        kept = len(await harness.ticks())
        await harness.until(lambda now: now.at > stale.at)
        assert len(await harness.ticks()) == kept
        harness.source.failing = False
        harness.source.utilization = 1.0
        back = await harness.until(lambda now: not now.source.stale)
        assert (back.power_watts, back.source.message) == (2800.0, "")

    play(file, loop_run, story)


def test_after_a_start_a_dead_source_is_as_old_as_what_it_said_last(file: Store, loop_run: LoopRun) -> None:
    last: list[int | None] = []

    async def before(harness: SamplerHarness) -> None:
        last.append((await harness.until(lambda now: not now.source.stale)).source.read_at)

    async def after(harness: SamplerHarness) -> None:
        harness.source.failing = True
        stale = await harness.until(lambda now: now.source.message == "The source told is down.")
        assert stale.source.read_at is not None
        assert last[0] is not None
        assert last[0] <= stale.source.read_at <= last[0] + 100 * TIMEOUT_SECONDS * 1000

    play(file, loop_run, before)
    play(file, loop_run, after)


def test_a_source_that_hangs_holds_up_nothing_and_is_never_asked_twice_at_once(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: SamplerHarness) -> None:
        harness.source.hanging = True
        stale = await harness.until(lambda now: "has not answered" in now.source.message)
        assert stale.source.read_at is None
        assert stale.source.asked_at is not None
        assert (stale.nodes, stale.measured_gpus, stale.power_watts) == (2, 0, None)
        asked = harness.source.asked
        while harness.source.asked < asked + 3:
            await asyncio.sleep(0.001)
        harness.source.hanging = False
        await harness.until(lambda now: not now.source.stale)

    assert play(file, loop_run, story).source.most_at_once == 1


def test_what_was_read_long_ago_is_not_known_any_more(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: SamplerHarness) -> None:
        await harness.until(lambda now: bool(now.power_watts))
        harness.source.failing = True
        harness.clock.ahead_ms = 301_000
        unknown = await harness.until(lambda now: now.power_watts is None)
        assert unknown.source.stale
        gpus = await harness.gpus()
        assert gpus is not None
        assert set(gpus.utilization) == {None}
        assert set(gpus.memory_total_bytes) == {80 << 30}

    play(file, loop_run, story)


def test_nodes_that_change_between_two_readings_are_shown_without_waiting_for_one(
    file: Store, loop_run: LoopRun
) -> None:
    changed = Node("n2", 64_000, 1, gpu_node("n2", 2).devices, ready=False)

    async def story(harness: SamplerHarness) -> None:
        harness.source.hanging = True
        await harness.until(lambda now: now.healthy_nodes == 2)
        harness.news.mark_nodes([changed])
        await harness.until(lambda now: now.faulty_nodes == 1)
        assert [node.ready for node in await harness.nodes()] == [True, False]
        await harness.store.write(lambda tx: nodes.upsert(tx, CLUSTER, [gpu_node("n3", 4)], 0))
        harness.news.mark_all()
        await harness.until(lambda now: now.nodes == 3)

    play(file, loop_run, story)


def test_a_fault_is_shown_as_long_as_no_reading_takes_it_back(file: Store, loop_run: LoopRun) -> None:
    async def before(harness: SamplerHarness) -> None:
        await harness.until(lambda now: now.healthy_nodes == 2)
        harness.source.faults = (GpuFault("n2", 1, "XID 79"),)
        await harness.until(lambda now: now.faulty_nodes == 1)
        assert [node.fault for node in await harness.nodes()] == ["", "GPU 1: XID 79"]
        harness.source.failing = True
        stale = await harness.until(lambda now: now.source.stale)
        harness.clock.ahead_ms = 600_000
        await harness.until(lambda now: now.at > stale.at + 600_000 and now.power_watts is None)
        assert [node.fault for node in await harness.nodes()] == ["", "GPU 1: XID 79"]

    async def after(harness: SamplerHarness) -> None:
        harness.source.failing = True
        begun = harness.clock.now()
        await harness.until(lambda now: now.at >= begun and now.faulty_nodes == 1)
        shown = await harness.gpus()
        assert shown is not None
        assert shown.fault == ["", "", "", "XID 79"]
        harness.source.failing = False
        await harness.until(lambda now: now.healthy_nodes == 2)
        assert await harness.store.read(lambda tx: gpu_availability.reported_faults(tx, CLUSTER)) == []

    play(file, loop_run, before)
    play(file, loop_run, after)


def test_a_fault_is_written_with_the_reading_that_said_it(file: Store, loop_run: LoopRun) -> None:
    torn: list[str] = []
    add_tick = gpu_samples.add_tick

    def tear(transaction: Transaction, *tick: Any) -> None:
        if gpu_availability.reported_faults(transaction, CLUSTER):
            add_tick(transaction, *tick)
            return
        torn.append("by a power cut")
        raise StokerError(ErrorCode.UNAVAILABLE, "The power was cut.")

    async def story(harness: SamplerHarness) -> None:
        harness.source.faults = (GpuFault("n1", 0, "XID 79"),)
        await harness.until(lambda now: now.faulty_nodes == 1)
        while not await harness.ticks():
            await asyncio.sleep(0.01)
        with mock.patch.object(gpu_samples, "add_tick", tear):
            harness.source.faults = ()
            while not torn:
                await asyncio.sleep(0.01)
            assert len(await harness.store.write(lambda tx: gpu_availability.reported_faults(tx, CLUSTER))) == 1
        while await harness.store.read(lambda tx: gpu_availability.reported_faults(tx, CLUSTER)):
            await asyncio.sleep(0.01)

    play(file, loop_run, story)


def test_a_cluster_whose_gpus_change_gets_another_roster(file: Store, loop_run: LoopRun) -> None:
    async def story(harness: SamplerHarness) -> None:
        while not await harness.ticks():
            await asyncio.sleep(0.001)
        harness.news.mark_nodes([gpu_node("n3", 1)])
        while len({tick.device_index_id for tick in await harness.ticks()}) < 2:
            await asyncio.sleep(0.001)

    play(file, loop_run, story)


def test_a_part_that_has_not_changed_is_not_published_again(file: Store, loop_run: LoopRun) -> None:
    async def version(part: LiveViewKind) -> int:
        return await file.read_inline(lambda tx: live_views.version(tx, CLUSTER, part))

    async def story(harness: SamplerHarness) -> None:
        await harness.until(lambda now: not now.source.stale)
        while await version(LiveViewKind.OVERVIEW) <= 3:
            await asyncio.sleep(0.001)

    play(file, loop_run, story)
    others = [loop_run(version(part)) for part in LiveViewKind if part is not LiveViewKind.OVERVIEW]
    assert max(others) <= 3


def test_on_a_disk_that_runs_full_readings_are_shown_and_not_kept(
    file: Store, loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise StokerError(ErrorCode.UNAVAILABLE, "There is no room.")

    monkeypatch.setattr(file, "check_disk_space", full)

    async def story(harness: SamplerHarness) -> None:
        first = await harness.until(lambda now: not now.source.stale)
        await harness.until(lambda now: now.at > first.at + 3000)
        assert await harness.ticks() == []

    play(file, loop_run, story)


def test_sizes_of_memory_that_are_read_make_one_roster_however_they_differ_and_after_a_restart(
    file: Store, loop_run: LoopRun
) -> None:
    bare = [structs.replace(d, memory_bytes=0) for d in gpu_node("n1", 2).devices]
    node = structs.replace(gpu_node("n1", 2), devices=tuple(bare))
    loop_run(file.write(lambda tx: nodes.upsert(tx, CLUSTER, [node, gpu_node("n2", 2)], 0)))

    async def story(harness: SamplerHarness) -> None:
        sizes = itertools.cycle([80 * GIB, 80 * GIB + MIB, 0, 80 * GIB - MIB])
        kept = len(await harness.ticks())
        while len(await harness.ticks()) < kept + 5:
            harness.source.memory_bytes = next(sizes)
            await asyncio.sleep(0.005)

    for _ in range(2):
        play(file, loop_run, story)
    rosters = loop_run(file.read(lambda tx: tx.fetch_all("SELECT body FROM device_index")))
    assert [device_index.decode(body).memory_bytes.tolist() for (body,) in rosters] == [[80 * GIB] * 4]


def test_the_size_of_a_gpu_that_was_away_for_a_while_is_known_after_a_restart(file: Store, loop_run: LoopRun) -> None:
    """The device index without it was stored last, but is not the last that was used."""
    bare = tuple(structs.replace(device, memory_bytes=0) for device in gpu_node("n1", 2).devices)
    first, second = (structs.replace(gpu_node(name, 2), devices=bare) for name in ("n1", "n2"))

    def have(*present: Node) -> None:
        def change(transaction: Transaction) -> None:
            nodes.mark_gone(transaction, CLUSTER, ["n1", "n2"], 0)
            nodes.upsert(transaction, CLUSTER, present, 0)

        loop_run(file.write(change))

    async def story(harness: SamplerHarness, size: int) -> None:
        harness.source.memory_bytes = size
        kept = len(await harness.ticks())
        while len(await harness.ticks()) < kept + 2:
            await asyncio.sleep(0.005)

    for size, present in ((80 * GIB, (first, second)), (80 * GIB, (first,)), (80 * GIB + MIB, (first, second))):
        have(*present)
        play(file, loop_run, partial(story, size=size))
    rosters = loop_run(file.read(lambda tx: tx.fetch_all("SELECT body FROM device_index ORDER BY id")))
    assert [device_index.decode(body).nodes for (body,) in rosters] == [("n1", "n2"), ("n1",)]
