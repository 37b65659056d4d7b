"""Changes by the controller appear in the live view soon, although the hardware is sampled rarely."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

import pytest
from tests.conftest import LoopRun
from tests.integration.controller.collect.conftest import ScriptedCollector
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, TIMEOUT_SECONDS, ControllerHarness, new_supervisor

from stoker.controller.collect.sampler import Sampler
from stoker.domain.cluster.live_view import ClusterSummary, GpuConsumer, LiveNode, LiveViewKind
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.events import StopRequested
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.store.cluster import live_views
from stoker.store.db.base import Store
from stoker.store.workloads import allocations

GPUS = Spec(resources=Resources(2000, 4000, 2**30), replicas=2, ttl_seconds=600)
ONLY_CPU = Spec(resources=Resources(0, 3000, 2**30), ttl_seconds=600)
HALF = Spec(resources=Resources(500, 1000, 2**30), ttl_seconds=600)
HOUR_SECONDS = 3600.0


class LiveViewHarness(ControllerHarness):
    """A controller, and a sampler beside it that reads once and then not for an hour."""

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        supervisor = new_supervisor(self.clock)
        sampler = Sampler(
            self.store, ScriptedCollector("n1", "n2"), CLUSTER, self.clock, self.news, supervisor, HOUR_SECONDS
        )
        async with self.at_work():
            task = asyncio.create_task(sampler.run())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def body(self, part: LiveViewKind) -> bytes | None:
        view = await self.store.read_inline(lambda tx: live_views.read(tx, CLUSTER, part))
        return view.body if view else None

    async def overview(self, check: Callable[[ClusterSummary], bool]) -> ClusterSummary:
        """The overview once this is true of it."""
        give_up = time.monotonic() + TIMEOUT_SECONDS
        while not (body := await self.body(LiveViewKind.OVERVIEW)) or not check(live_views.decode_overview(body)):
            assert time.monotonic() < give_up, body
            await asyncio.sleep(0.01)
        return live_views.decode_overview(body)

    async def consumers(self) -> list[GpuConsumer]:
        return live_views.decode_consumers(await self.body(LiveViewKind.CONSUMERS) or b"\x90")

    async def nodes(self) -> list[LiveNode]:
        return live_views.decode_nodes(await self.body(LiveViewKind.NODES) or b"\x90")


@pytest.fixture
def harness(store: Store) -> LiveViewHarness:
    return LiveViewHarness(store, FakeEngine([machine("n1", 2), machine("n2", 2)]))


def test_a_workload_is_seen_while_it_holds_gpus_and_gone_when_it_has_stopped(
    harness: LiveViewHarness, loop_run: LoopRun
) -> None:
    async def story() -> None:
        await harness.found()
        async with harness.watched():
            idle = await harness.overview(lambda now: now.nodes == 2 and not now.source.stale)
            assert (idle.idle_nodes, idle.allocated_milli) == (2, 0)
            uid = await harness.submit(spec=GPUS)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            busy = await harness.overview(lambda now: now.busy_nodes == 2)
            taken = (busy.allocated_milli, busy.measured_gpus, busy.utilization_sum)
            assert taken == (4000, 0, 0.0), "the only reading is of before it had the GPUs"
            while not (found := await harness.consumers()):
                await asyncio.sleep(0.01)
            assert [(each.uid, each.gpu_milli, each.utilization) for each in found] == [(uid, 4000, None)]
            await harness.ask(uid, lambda at: StopRequested(at, "li.wei"))
            await harness.until(uid, lambda found: found.phase is Phase.STOPPED)
            await harness.overview(lambda now: now.idle_nodes == 2)
            assert await harness.consumers() == []

    loop_run(story())


def test_cpu_workloads_and_parts_of_gpus_count_for_what_they_take(harness: LiveViewHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.found()
        async with harness.watched():
            for spec in (HALF, HALF, ONLY_CPU):
                uid = await harness.submit(spec=spec)
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            now = await harness.overview(lambda now: now.allocated_milli == 1000)
            assert (now.partial_nodes, now.idle_nodes, now.allocated_gpus) == (1, 1, 1)
            while sum(node.pods for node in await harness.nodes()) < 3:
                await asyncio.sleep(0.01)
            assert sum(node.cpu_allocated_milli for node in await harness.nodes()) == 5000
            assert [each.gpu_milli for each in await harness.consumers()] == [500, 500]

    loop_run(story())


def test_holders_read_one_by_one_are_those_that_are_read_at_once(harness: LiveViewHarness, loop_run: LoopRun) -> None:
    async def story() -> None:
        await harness.found()
        async with harness.at_work():
            uids = [await harness.submit(spec=spec) for spec in (GPUS, ONLY_CPU)]
            for uid in uids:
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            waits = await harness.submit(spec=GPUS)
            every = await harness.read(lambda tx: allocations.of_cluster(tx, CLUSTER))
            some = await harness.read(lambda tx: allocations.of_workloads(tx, CLUSTER, [*uids, waits, "unknown"]))
            assert sorted(each.uid for each in every) == sorted(uids)
            assert sorted(every, key=lambda each: each.uid) == sorted(some, key=lambda each: each.uid)
            assert await harness.read(lambda tx: allocations.of_workloads(tx, "another", uids)) == []

    loop_run(story())
