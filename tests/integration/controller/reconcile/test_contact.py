"""Lost contact to an engine: what is shown meanwhile, what is frozen, and what the first report afterwards mends."""

import asyncio

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, SMALL, ControllerHarness

from stoker.controller.reconcile.actions import FORCE_AFTER_SECONDS
from stoker.domain.workload.events import StopRequested
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.engines.model import Disconnected, FullSync
from stoker.store.cluster import clusters
from stoker.store.db.base import Store

BEGIN = 1_790_000_000_000


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    made.clock = ManualClock(BEGIN)
    loop_run(made.found())
    return made


def full_sync(harness: ControllerHarness) -> FullSync:
    return FullSync(tuple(harness.engine.nodes.values()), tuple(harness.engine.pods.values()))


async def advance(harness: ControllerHarness, seconds: float) -> None:
    clock = harness.clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)
    await asyncio.sleep(0.05)  # whatever would happen now, happens


def test_workloads_become_unknown_after_a_while_and_come_back_with_the_first_report(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work(unknown_after_seconds=60.0):
            uid = await harness.submit()
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            harness.engine.tell(Disconnected(BEGIN, "connection refused"))
            await harness.until_read(lambda tx: clusters.get(tx, CLUSTER).unreachable_since == BEGIN)
            await advance(harness, 59)
            assert (await harness.workload(uid)).phase is Phase.RUNNING
            await advance(harness, 2)
            lost = await harness.until(uid, lambda found: found.phase is Phase.UNKNOWN)
            assert "connection refused" in lost.message
            harness.engine.tell(full_sync(harness))
            back = await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            assert back.attempt == 1
            assert (await harness.read(lambda tx: clusters.get(tx, CLUSTER))).unreachable_since is None

    loop_run(live())


def test_nothing_is_started_and_no_timeout_strikes_while_the_engine_cannot_be_reached(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work(unknown_after_seconds=10.0):
            running = await harness.submit(timeout_seconds=100)
            await harness.until(running, lambda found: found.phase is Phase.RUNNING)
            harness.engine.tell(Disconnected(BEGIN, "connection refused"))
            await advance(harness, 11)
            await harness.until(running, lambda found: found.phase is Phase.UNKNOWN)
            pending = await harness.submit()
            await advance(harness, 200)
            assert (await harness.workload(pending)).phase is Phase.PENDING
            assert (await harness.workload(running)).phase is Phase.UNKNOWN
            assert harness.engine.removed == []
            harness.engine.tell(full_sync(harness))
            await harness.until(pending, lambda found: found.phase is Phase.RUNNING)
            await harness.until(running, lambda found: found.phase is Phase.STOPPED)

    loop_run(live())


def test_pods_that_the_engine_lost_during_the_outage_are_launched_or_failed_over_once(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work(unknown_after_seconds=1.0):
            uid = await harness.submit()
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            harness.engine.tell(Disconnected(BEGIN, "connection refused"))
            await advance(harness, 2)
            await harness.until(uid, lambda found: found.phase is Phase.UNKNOWN)
            harness.engine.pods.clear()
            harness.engine.tell(full_sync(harness))
            again = await harness.until(uid, lambda found: found.phase is Phase.RUNNING and found.attempt == 2)
            assert again.retries == 0

    loop_run(live())


def test_pods_that_do_not_end_are_removed_by_force_some_time_after_their_grace_period(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        harness.engine.ends_at_once = False
        async with harness.at_work():
            uid = await harness.submit(spec=Spec(resources=SMALL))
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            await harness.ask(uid, lambda at: StopRequested(at, "li.wei", 10))
            await harness.eventually(lambda: harness.engine.removed == [(uid, 1)])
            assert harness.engine.forced == []
            await advance(harness, 10 + FORCE_AFTER_SECONDS + 1)
            await harness.until(uid, lambda found: found.phase is Phase.STOPPED)
            assert harness.engine.forced == [(uid, 1)]

    loop_run(live())
