"""A revision that does not become ready is given up for the last good one."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from msgspec import structs
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import SMALL, ControllerHarness, words

from stoker.controller.reconcile.rollout import RolloutPolicy
from stoker.domain.workload.events import SpecChanged
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import Delta, EngineEvent
from stoker.store.db.base import Store

GOOD = Spec(resources=SMALL, image="good", replicas=2)
BROKEN = structs.replace(GOOD, image="broken")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def harness(store: Store, loop_run: LoopRun, clock: ManualClock) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    made.clock = clock
    loop_run(made.found())
    return made


def served(loop_run: LoopRun, harness: ControllerHarness, clock: ManualClock, work: Coroutine[Any, Any, None]) -> None:
    """Do this while the controller is at work, and the loops that sleep on the clock are woken."""

    async def tick() -> None:
        while True:
            await asyncio.sleep(0.01)
            clock.advance(0.01)

    async def both() -> None:
        ticking = asyncio.create_task(tick())
        try:
            async with harness.at_work():
                await work
        finally:
            ticking.cancel()

    loop_run(both())


async def rolling(harness: ControllerHarness, spec: Spec = BROKEN) -> str:
    """A good Deployment of which a revision that does not become ready was asked for."""
    uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=GOOD)
    await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
    harness.engine.comes_up = False
    await harness.ask(uid, lambda at: SpecChanged(at, "zhang", spec))
    await harness.eventually(lambda: len(harness.engine.of(uid)) == 4)
    return uid


def crash(harness: ControllerHarness, uid: str, revision: int) -> None:
    fallen = [pod for pod in harness.engine.of(uid) if pod.revision == revision]
    harness.engine.report(
        *(
            structs.replace(
                pod, phase=PodPhase.RUNNING, ready=False, restarts=3, started_at=1, message="It ended with exit code 3."
            )
            for pod in fallen
        )
    )


def end(harness: ControllerHarness, uid: str, revision: int) -> None:
    """What an engine does with the pods that the present order does not want."""
    gone = [pod for pod in harness.engine.of(uid) if pod.revision == revision]
    harness.engine.report(*(structs.replace(pod, phase=PodPhase.FAILED, ready=False, ended_at=2) for pod in gone))


def test_a_revision_that_is_not_ready_in_time_gives_way_to_the_last_good_one(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await rolling(harness)
        old = {pod.uid for pod in harness.engine.of(uid) if pod.revision == 1}
        crash(harness, uid, 2)
        await harness.until(uid, lambda found: "restarted 3 times" in found.message)
        clock.advance(601)
        back = await harness.until(uid, lambda found: found.revision == 3)
        assert (back.spec, back.phase) == (GOOD, Phase.UPDATING)
        await harness.eventually(lambda: harness.engine.orders[-1].ref.revision == 3)
        assert {pod.uid for pod in harness.engine.orders[-1].pods} == old
        end(harness, uid, 2)
        well = await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        assert well.message == (
            f"revision 2 was not ready within 600 s (pod {well.slug}-0: It ended with exit code 3); "
            "revision 1 is back as revision 3"
        )
        assert ("Updating", "RolledBack") in words(await harness.conditions(uid))
        assert well.good_revision == 3

    served(loop_run, harness, clock, live())


def test_the_next_change_takes_what_was_said_about_a_rollback_away(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await rolling(harness)
        clock.advance(601)
        await harness.until(uid, lambda found: found.revision == 3)
        end(harness, uid, 2)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING and bool(found.message))
        harness.engine.comes_up = True
        await harness.ask(uid, lambda at: SpecChanged(at, "zhang", structs.replace(GOOD, image="better")))
        await harness.until(uid, lambda found: found.revision == 4)
        await harness.eventually(lambda: any(pod.revision == 4 for pod in harness.engine.of(uid)))
        end(harness, uid, 1)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING and not found.message)

    served(loop_run, harness, clock, live())


def test_without_the_setting_a_late_revision_only_says_so(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    harness.rollout = RolloutPolicy(deadline_seconds=60, auto_rollback=False)

    async def live() -> None:
        uid = await rolling(harness)
        clock.advance(61)
        late = await harness.until(uid, lambda found: "not ready within 60 s" in found.message)
        assert (late.revision, late.phase) == (2, Phase.UPDATING)
        assert late.message.endswith("it is not rolled back: the setting rollout_rollback is off")
        assert ("Running", "DeadlineExceeded") in words(await harness.conditions(uid))

    served(loop_run, harness, clock, live())


def test_what_never_was_ready_has_nothing_to_go_back_to_and_says_so(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    async def live() -> None:
        harness.engine.comes_up = False
        uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=BROKEN)
        await harness.eventually(lambda: len(harness.engine.of(uid)) == 2)
        clock.advance(601)
        late = await harness.until(uid, lambda found: "not ready within" in found.message)
        assert (late.revision, late.phase) == (1, Phase.INITIALIZING)
        assert late.message.endswith("it is not rolled back: no revision before it was ready")

    served(loop_run, harness, clock, live())


def test_a_rollback_goes_on_under_a_new_controller(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    uids: list[str] = []

    async def begin() -> None:
        uids.append(await rolling(harness))

    async def go_on() -> None:
        clock.advance(601)
        await harness.until(uids[0], lambda found: found.revision == 3)
        end(harness, uids[0], 2)
        await harness.until(uids[0], lambda found: found.phase is Phase.RUNNING)

    served(loop_run, harness, clock, begin())
    served(loop_run, harness, clock, go_on())


def test_what_an_engine_cannot_do_in_the_background_is_said(
    harness: ControllerHarness, clock: ManualClock, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await rolling(harness)
        waiting = tuple(pod.uid for pod in harness.engine.of(uid) if pod.revision == 2)
        harness.engine.tell(Delta(events=(EngineEvent(uid, 1, "StartDelayed", "The disk is full.", waiting),)))
        told = await harness.until(uid, lambda found: "The disk is full." in found.message)
        assert (told.phase, told.message) == (
            Phase.UPDATING,
            "its pods cannot be started yet: The disk is full.",
        )
        assert ("Updating", "StartDelayed") in words(await harness.conditions(uid))
        said = {pod.message for pod in await harness.pods(uid) if pod.uid in waiting}
        assert said == {told.message}

    served(loop_run, harness, clock, live())
