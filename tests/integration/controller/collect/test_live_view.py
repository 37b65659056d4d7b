"""What the controller does is seen in the live view soon after, though the hardware is read only now and then."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable

import pytest
from tests.conftest import LoopRun
from tests.engine.controller.lab import CLUSTER, PATIENCE, ControllerLab
from tests.engine.controller.pretend import PretendEngine, machine
from tests.engine.sampling.conftest import Told

from stoker.controller.sampler import Sampler
from stoker.domain.events import StopAsked
from stoker.domain.live import Consumer, NodeNow, Overview, Part
from stoker.domain.resources import Resources
from stoker.domain.workload import Phase, Spec
from stoker.store import holders, live_views
from stoker.store.base import Store

GPUS = Spec(resources=Resources(2000, 4000, 2**30), replicas=2, ttl_seconds=600)
ONLY_CPU = Spec(resources=Resources(0, 3000, 2**30), ttl_seconds=600)
HALF = Spec(resources=Resources(500, 1000, 2**30), ttl_seconds=600)
HOUR_SECONDS = 3600.0


class Watched(ControllerLab):
    """A controller, and a sampler beside it that reads once and then not for an hour."""

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        sampler = Sampler(self.store, Told("n1", "n2"), CLUSTER, self.clock, self.news, HOUR_SECONDS)
        async with self.at_work():
            task = asyncio.create_task(sampler.run())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def body(self, part: Part) -> bytes | None:
        view = await self.store.peek(lambda tx: live_views.read(tx, CLUSTER, part))
        return view.body if view else None

    async def overview(self, check: Callable[[Overview], bool]) -> Overview:
        """The overview once this is true of it."""
        give_up = time.monotonic() + PATIENCE
        while not (body := await self.body(Part.OVERVIEW)) or not check(live_views.decode_overview(body)):
            assert time.monotonic() < give_up, body
            await asyncio.sleep(0.01)
        return live_views.decode_overview(body)

    async def consumers(self) -> list[Consumer]:
        return live_views.decode_consumers(await self.body(Part.CONSUMERS) or b"\x90")

    async def nodes(self) -> list[NodeNow]:
        return live_views.decode_nodes(await self.body(Part.NODES) or b"\x90")


@pytest.fixture
def lab(store: Store) -> Watched:
    return Watched(store, PretendEngine([machine("n1", 2), machine("n2", 2)]))


def test_a_workload_is_seen_while_it_holds_gpus_and_gone_when_it_has_stopped(lab: Watched, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found()
        async with lab.watched():
            idle = await lab.overview(lambda now: now.nodes == 2 and not now.source.stale)
            assert (idle.idle_nodes, idle.allocated_milli) == (2, 0)
            uid = await lab.submit(spec=GPUS)
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
            busy = await lab.overview(lambda now: now.busy_nodes == 2)
            assert (busy.allocated_milli, busy.measured_gpus, busy.utilization_sum) == (4000, 4, 2.0)
            while not (found := await lab.consumers()):
                await asyncio.sleep(0.01)
            assert [(each.uid, each.gpu_milli, each.utilization) for each in found] == [(uid, 4000, 0.5)]
            await lab.ask(uid, lambda at: StopAsked(at, "li.wei"))
            await lab.until(uid, lambda found: found.phase is Phase.STOPPED)
            await lab.overview(lambda now: now.idle_nodes == 2)
            assert await lab.consumers() == []

    loop_run(story())


def test_cpu_workloads_and_parts_of_gpus_count_for_what_they_take(lab: Watched, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found()
        async with lab.watched():
            for spec in (HALF, HALF, ONLY_CPU):
                uid = await lab.submit(spec=spec)
                await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
            now = await lab.overview(lambda now: now.allocated_milli == 1000)
            assert (now.partial_nodes, now.idle_nodes, now.allocated_gpus) == (1, 1, 1)
            while sum(node.pods for node in await lab.nodes()) < 3:
                await asyncio.sleep(0.01)
            assert sum(node.cpu_allocated_milli for node in await lab.nodes()) == 5000
            assert [each.gpu_milli for each in await lab.consumers()] == [500, 500]

    loop_run(story())


def test_holders_read_one_by_one_are_those_that_are_read_at_once(lab: Watched, loop_run: LoopRun) -> None:
    async def story() -> None:
        await lab.found()
        async with lab.at_work():
            uids = [await lab.submit(spec=spec) for spec in (GPUS, ONLY_CPU)]
            for uid in uids:
                await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
            waits = await lab.submit(spec=GPUS)
            every = await lab.read(lambda tx: holders.of_cluster(tx, CLUSTER))
            some = await lab.read(lambda tx: holders.of_workloads(tx, CLUSTER, [*uids, waits, "unknown"]))
            assert sorted(each.uid for each in every) == sorted(uids)
            assert sorted(every, key=lambda each: each.uid) == sorted(some, key=lambda each: each.uid)
            assert await lab.read(lambda tx: holders.of_workloads(tx, "another", uids)) == []

    loop_run(story())
