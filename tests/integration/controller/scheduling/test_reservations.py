"""Capacity freed by preemption stays reserved for the preemptor, over scheduling cycles and a new controller."""

import asyncio
from collections.abc import Callable

import pytest
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import ControllerHarness, workspace

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.events import LifecycleEvent, SpecChanged, StopRequested
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.store.db.base import Store
from stoker.store.identity import workspaces

OWNER, GUEST, LATECOMER = 1, 2, 3
URGENT = 150
ALL = Spec(resources=Resources(8 * MILLI, 100, 2**20), ttl_seconds=600)
HALF = Spec(resources=Resources(4 * MILLI, 100, 2**20), ttl_seconds=600)


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    """One node, two teams that it is enough for one at a time, and one that may only borrow it."""
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    made.engine.ends_at_once = False  # its pods go when a test ends them
    loop_run(made.found(Quota(gpu_milli=8 * MILLI)))
    for number, quota in ((GUEST, 0), (LATECOMER, 8 * MILLI)):
        team = workspace(number, Quota(gpu_milli=quota))
        loop_run(store.write(lambda tx, team=team: workspaces.add(tx, team)))
    return made


def is_running(found: Workload) -> bool:
    return found.phase is Phase.RUNNING


def is_leaving(found: Workload) -> bool:
    return found.phase is Phase.TERMINATING


async def evicted(harness: ControllerHarness, wanted: Spec = ALL) -> tuple[str, str]:
    """One that borrows all there is and is being evicted, and one it is evicted for."""
    guest = await harness.submit(spec=ALL, workspace_id=GUEST, preemptible=True)
    await harness.until(guest, is_running)
    owner = await harness.submit(spec=wanted)
    await harness.until(guest, is_leaving)
    await harness.eventually(lambda: harness.engine.removed == [(guest, 1)])
    return guest, owner


def test_who_arrives_while_the_victim_leaves_does_not_take_its_capacity(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, owner = await evicted(harness)
            late = await harness.submit(spec=ALL, workspace_id=LATECOMER, priority=URGENT)
            await harness.until(late, lambda found: bool(found.pending_message))
            harness.engine.end(guest, 143)
            await harness.until(owner, is_running)
            assert (await harness.workload(late)).attempt == 0

    loop_run(live())


def test_the_capacity_is_kept_by_another_controller_too(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, owner = await evicted(harness)
        late = await harness.submit(spec=ALL, workspace_id=LATECOMER, priority=URGENT)
        harness.engine._news = asyncio.Queue()
        harness.engine.end(guest, 143)
        async with harness.at_work():
            await harness.until(owner, is_running)
            assert (await harness.workload(late)).attempt == 0
            assert (await harness.workload(owner)).reserved_nodes == ()

    loop_run(live())


@pytest.mark.parametrize(
    "gives_up",
    [lambda at: StopRequested(at, "li.wei"), lambda at: SpecChanged(at, "li.wei", Spec(resources=Resources(0, 1)))],
)
def test_who_no_longer_needs_the_capacity_keeps_it_from_nobody(
    harness: ControllerHarness, loop_run: LoopRun, gives_up: Callable[[int], LifecycleEvent]
) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, owner = await evicted(harness)
            await harness.until(owner, lambda found: found.reserved_nodes == ("node-1",))
            late = await harness.submit(spec=ALL, workspace_id=LATECOMER, priority=URGENT)
            await harness.until(late, lambda found: bool(found.pending_message))
            await harness.ask(owner, gives_up)
            harness.engine.end(guest, 143)
            await harness.until(late, is_running)
            assert (await harness.workload(owner)).reserved_nodes == ()

    loop_run(live())


def test_capacity_that_is_lost_before_it_is_free_is_not_kept_for_ever(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    """The only node shrinks while the victim leaves: what was reserved will never be there."""

    async def live() -> None:
        async with harness.at_work():
            guest, owner = await evicted(harness)
            await harness.until(owner, lambda found: found.reserved_nodes == ("node-1",))
            harness.engine.tell_nodes(machine("node-1", 4))
            harness.engine.end(guest, 143)
            await harness.until(owner, lambda found: found.reserved_nodes == ())
            late = await harness.submit(spec=HALF, workspace_id=LATECOMER)
            await harness.until(late, is_running)

    loop_run(live())


def test_the_rest_of_the_capacity_is_for_others_at_once(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, owner = await evicted(harness, HALF)
            late = await harness.submit(spec=HALF, workspace_id=LATECOMER, priority=URGENT)
            harness.engine.end(guest, 143)
            await harness.until(owner, is_running)
            await harness.until(late, is_running)

    loop_run(live())
