"""A place that is guaranteed is kept by the controller, also by a new one, and given up when its time has passed."""

import asyncio

import pytest
from tests.conftest import LoopRun
from tests.engine.controller.lab import ControllerLab, workspace
from tests.engine.controller.pretend import PretendEngine, machine

from stoker.domain.identity import Quota
from stoker.domain.lifecycle import Change, edited
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Phase, Spec, Workload
from stoker.engines.base import Changes
from stoker.store import workloads, workspaces
from stoker.store.base import Store, Transaction

SECONDS = 2
OWNER, GUEST = 1, 2
ALL = Spec(resources=Resources(8 * MILLI, 100, 2**20), ttl_seconds=600)


@pytest.fixture
def lab(store: Store, loop_run: LoopRun) -> ControllerLab:
    """One node, which belongs to a team, and another team that may only borrow it."""
    made = ControllerLab(store, PretendEngine([machine("node-1")]))
    loop_run(made.found(Quota(gpu_milli=8 * MILLI)))
    guest = workspace(GUEST, Quota(gpu_milli=0), SECONDS)
    loop_run(store.write(lambda tx: workspaces.add(tx, guest)))
    return made


def is_running(found: Workload) -> bool:
    return found.phase is Phase.RUNNING


async def borrow(lab: ControllerLab) -> tuple[Workload, int]:
    """Something that runs on borrowed room, and until when it may."""
    guest = await lab.until(await lab.submit(spec=ALL, workspace_id=GUEST, preemptible=True), is_running)
    assert guest.guaranteed_until is not None
    return guest, guest.guaranteed_until


def test_an_owner_gets_its_room_when_the_guarantee_ends_though_the_controller_was_another(
    lab: ControllerLab, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with lab.at_work():
            guest, until = await borrow(lab)
            [dispatched] = [each for each in await lab.conditions(guest.uid) if each.type == "Dispatched"]
            assert until == dispatched.at + SECONDS * 1000
            owner = await lab.submit(spec=ALL)
            await lab.until(owner, lambda found: bool(found.waiting))
        assert (await lab.workload(guest.uid)).guaranteed_until == until
        lab.engine._news = asyncio.Queue()
        async with lab.at_work():
            await lab.until(owner, is_running)
            assert (await lab.workload(guest.uid)).guaranteed_until is None
            [preempted] = [each for each in await lab.conditions(guest.uid) if each.type == "Preempted"]
            assert until <= preempted.at < until + 1000
            lab.engine.end(owner)
            again = await lab.until(guest.uid, is_running)
            assert again.guaranteed_until is not None
            assert again.guaranteed_until > until
            assert again.attempt == 2

    loop_run(live())


def test_what_was_promised_stands_when_the_workspace_promises_less(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with lab.at_work():
            guest, until = await borrow(lab)
            await lab.store.write(lambda tx: workspaces.replace(tx, workspace(GUEST, Quota(gpu_milli=0))))
            owner = await lab.submit(spec=ALL)
            await lab.until(owner, is_running)
            [preempted] = [each for each in await lab.conditions(guest.uid) if each.type == "Preempted"]
            assert preempted.at >= until
            lab.engine.end(owner)
            again = await lab.until(guest.uid, is_running)
            assert again.guaranteed_until is None

    loop_run(live())


def test_what_is_not_preemptible_has_no_guarantee_and_one_that_becomes_so_keeps_what_it_was_promised(
    lab: ControllerLab, loop_run: LoopRun
) -> None:
    async def live() -> None:
        def stay(transaction: Transaction) -> None:
            found = workloads.find(transaction, guest.uid)
            assert found is not None
            workloads.apply(transaction, found, Change(edited(found, preemptible=False), ()))

        async with lab.at_work():
            guest, until = await borrow(lab)
            await lab.store.write(stay)
            owner = await lab.submit(spec=ALL)
            await asyncio.sleep(max(0, until - lab.clock.now()) / 1000 + 0.3)
            kept = await lab.workload(guest.uid)
            assert (kept.phase, kept.guaranteed_until) == (Phase.RUNNING, until)
            assert (await lab.workload(owner)).phase is Phase.PENDING
            lab.engine.end(guest.uid)
            assert (await lab.until(owner, is_running)).guaranteed_until is None

    loop_run(live())


def test_a_pod_that_is_lost_and_made_again_renews_nothing(lab: ControllerLab, loop_run: LoopRun) -> None:
    spec = Spec(resources=Resources(MILLI, 100, 2**20), replicas=2)

    async def live() -> None:
        async with lab.at_work():
            uid = await lab.submit(spec=spec, kind=Kind.DEPLOYMENT, workspace_id=GUEST, preemptible=True)
            first = await lab.until(uid, is_running)
            lost = (await lab.pods(uid))[0].uid
            del lab.engine.pods[lost]
            lab.engine.tell(Changes(gone=(lost,)))
            await lab.until(uid, lambda found: found.version > first.version and is_running(found))
            assert len(await lab.pods(uid)) == 3
            assert (await lab.workload(uid)).guaranteed_until == first.guaranteed_until

    loop_run(live())
