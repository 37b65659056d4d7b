"""The controller, also a new one, keeps guaranteed runtimes, and preempts after they have ended."""

import asyncio

import pytest
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import ControllerHarness, workspace

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.lifecycle import apply_edit
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.phase_change import Transition
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import Delta
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import rows, transitions

SECONDS = 2
OWNER, GUEST = 1, 2
ALL = Spec(resources=Resources(8 * MILLI, 100, 2**20), ttl_seconds=600)


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    """One node, which belongs to a team, and another team that may only borrow it."""
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    loop_run(made.found(Quota(gpu_milli=8 * MILLI)))
    guest = workspace(GUEST, Quota(gpu_milli=0), SECONDS)
    loop_run(store.write(lambda tx: workspaces.add(tx, guest)))
    return made


def is_running(found: Workload) -> bool:
    return found.phase is Phase.RUNNING


async def borrow(harness: ControllerHarness) -> tuple[Workload, int]:
    """A workload that runs over quota, and the end of its guaranteed runtime."""
    guest = await harness.until(await harness.submit(spec=ALL, workspace_id=GUEST, preemptible=True), is_running)
    assert guest.guaranteed_until is not None
    return guest, guest.guaranteed_until


def test_an_owner_gets_its_capacity_when_the_guarantee_ends_though_the_controller_was_another(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, until = await borrow(harness)
            [dispatched] = [each for each in await harness.conditions(guest.uid) if each.type == "Dispatched"]
            assert until == dispatched.at + SECONDS * 1000
            owner = await harness.submit(spec=ALL)
            await harness.until(owner, lambda found: bool(found.pending_message))
        assert (await harness.workload(guest.uid)).guaranteed_until == until
        harness.engine._news = asyncio.Queue()
        async with harness.at_work():
            await harness.until(owner, is_running)
            assert (await harness.workload(guest.uid)).guaranteed_until is None
            [preempted] = [each for each in await harness.conditions(guest.uid) if each.type == "Preempted"]
            assert until <= preempted.at < until + 1000
            harness.engine.end(owner)
            again = await harness.until(guest.uid, is_running)
            assert again.guaranteed_until is not None
            assert again.guaranteed_until > until
            assert again.attempt == 2

    loop_run(live())


def test_what_was_promised_stands_when_the_workspace_promises_less(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            guest, until = await borrow(harness)
            await harness.store.write(lambda tx: workspaces.update(tx, workspace(GUEST, Quota(gpu_milli=0))))
            owner = await harness.submit(spec=ALL)
            await harness.until(owner, is_running)
            [preempted] = [each for each in await harness.conditions(guest.uid) if each.type == "Preempted"]
            assert preempted.at >= until
            harness.engine.end(owner)
            again = await harness.until(guest.uid, is_running)
            assert again.guaranteed_until is None

    loop_run(live())


def test_what_is_not_preemptible_has_no_guarantee_and_one_that_becomes_so_keeps_what_it_was_promised(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        def stay(transaction: Transaction) -> None:
            found = rows.find(transaction, guest.uid)
            assert found is not None
            transitions.apply(transaction, found, Transition(apply_edit(found, preemptible=False), ()))

        async with harness.at_work():
            guest, until = await borrow(harness)
            await harness.store.write(stay)
            owner = await harness.submit(spec=ALL)
            await asyncio.sleep(max(0, until - harness.clock.now()) / 1000 + 0.3)
            kept = await harness.workload(guest.uid)
            assert (kept.phase, kept.guaranteed_until) == (Phase.RUNNING, until)
            assert (await harness.workload(owner)).phase is Phase.PENDING
            harness.engine.end(guest.uid)
            assert (await harness.until(owner, is_running)).guaranteed_until is None

    loop_run(live())


def test_a_pod_that_is_lost_and_made_again_renews_nothing(harness: ControllerHarness, loop_run: LoopRun) -> None:
    spec = Spec(resources=Resources(MILLI, 100, 2**20), replicas=2)

    async def live() -> None:
        async with harness.at_work():
            uid = await harness.submit(spec=spec, kind=Kind.DEPLOYMENT, workspace_id=GUEST, preemptible=True)
            first = await harness.until(uid, is_running)
            lost = (await harness.pods(uid))[0].uid
            del harness.engine.pods[lost]
            harness.engine.tell(Delta(gone=(lost,)))
            await harness.until(uid, lambda found: found.version > first.version and is_running(found))
            assert len(await harness.pods(uid)) == 3
            assert (await harness.workload(uid)).guaranteed_until == first.guaranteed_until

    loop_run(live())
