"""What a controller makes of what its engine does, refuses and reports."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.engine.controller.lab import CLUSTER, SMALL, ControllerLab, words
from tests.engine.controller.pretend import PretendEngine, machine

from stoker.controller import reconcile
from stoker.domain.clock import SystemClock
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.events import DeleteAsked, Replaced, StopAsked
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Phase, PodPhase, Spec
from stoker.engines.base import Changes, PodSeen
from stoker.store import nodes, pods
from stoker.store.base import Store

DOWN = StokerError(ErrorCode.BACKEND_DOWN, "The disk is full.")
NEVER = bad_request("image", "there is no such image.")


@pytest.fixture
def lab(store: Store, loop_run: LoopRun) -> ControllerLab:
    made = ControllerLab(store, PretendEngine([machine("node-1"), machine("node-2")]))
    loop_run(made.found())
    return made


def served(loop_run: LoopRun, lab: ControllerLab, work: Coroutine[Any, Any, None]) -> None:
    """Do this while the controller is at work."""

    async def both() -> None:
        async with lab.at_work():
            await work

    loop_run(both())


def test_a_job_is_placed_runs_completes_and_is_let_go(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        uid = await lab.submit(spec=Spec(resources=Resources(2 * MILLI, 100, 1), replicas=2, ttl_seconds=0))
        await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        assert len(await lab.read(lambda tx: pods.held(tx, CLUSTER))) == 2
        lab.engine.end(uid)
        ended = await lab.until(uid, lambda found: found.phase is Phase.COMPLETED)
        assert ended.message == "every pod exited with code 0"
        await lab.eventually(lambda: uid in lab.engine.forgotten)
        assert await lab.read(lambda tx: pods.held(tx, CLUSTER)) == []
        assert words(await lab.conditions(uid)) == [
            ("Queued", "Submitted"),
            ("Dispatched", "Dispatch0"),
            ("Running", "PodsRunning"),
            ("Succeeded", "PodsSucceeded"),
        ]
        assert [len(order.pods) for order in lab.engine.orders] == [2]

    served(loop_run, lab, live())


def test_no_moment_of_a_gpu_is_held_twice_after_the_clock_was_set_back(lab: ControllerLab, loop_run: LoopRun) -> None:
    every = Spec(resources=Resources(8 * MILLI, 100, 1), replicas=2)

    class SetBack(SystemClock):
        behind_ms = 0

        def now(self) -> int:
            return super().now() - self.behind_ms

    lab.clock = clock = SetBack()

    async def live() -> None:
        first = await lab.submit(spec=every)
        await lab.until(first, lambda found: found.phase is Phase.RUNNING)
        over = [structs.replace(pod, phase=PodPhase.SUCCEEDED, exit_code=0) for pod in lab.engine.of(first)]
        lab.engine.report(*over)
        await lab.until(first, lambda found: found.phase is Phase.COMPLETED)
        clock.behind_ms = 60_000
        second = await lab.submit(spec=every)
        await lab.until(second, lambda found: found.phase is Phase.RUNNING)
        held = await lab.read(
            lambda tx: tx.all("SELECT workload_uid, MIN(from_at), MAX(to_at) FROM allocation GROUP BY 1")
        )
        spans = {uid: (from_at, to_at) for uid, from_at, to_at in held}
        assert spans[second][0] >= spans[first][1]

    served(loop_run, lab, live())


def test_many_jobs_at_once_all_live_once(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        uids = [await lab.submit() for _ in range(60)]
        for uid in uids:
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        for uid in uids:
            lab.engine.end(uid, code=0)
        for uid in uids:
            await lab.until(uid, lambda found: found.phase is Phase.COMPLETED)
        assert sorted(order.workload_uid for order in lab.engine.orders) == sorted(uids)

    served(loop_run, lab, live())


def test_what_an_engine_refuses_for_good_fails_and_says_why(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        lab.engine.refusal = NEVER
        uid = await lab.submit(max_retry=3)
        failed = await lab.until(uid, lambda found: found.phase is Phase.FAILED)
        assert "there is no such image" in failed.message
        assert words(await lab.conditions(uid))[-1] == ("Failed", "StartRefused")
        [pod] = await lab.pods(uid)
        assert pod.phase.ended
        assert "there is no such image" in pod.message
        assert await lab.read(lambda tx: pods.held(tx, CLUSTER)) == []
        assert len(lab.engine.orders) == 1

    served(loop_run, lab, live())


def test_a_gang_of_which_some_began_is_ended_when_the_rest_is_refused(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        uid = await lab.submit(spec=Spec(resources=SMALL, replicas=2))
        apply = lab.engine.apply

        async def half(order: Any) -> None:
            await apply(structs.replace(order, pods=order.pods[:1]))
            raise NEVER

        lab.engine.apply = half
        failed = await lab.until(uid, lambda found: found.phase is Phase.FAILED)
        assert "there is no such image" in failed.message
        assert all(pod.phase.ended for pod in await lab.pods(uid))
        assert lab.engine.removed == [(uid, 1)]

    served(loop_run, lab, live())


def test_what_an_engine_cannot_start_now_says_so_and_starts_later(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        lab.engine.refusal = DOWN
        with mock.patch.object(reconcile, "FIRST_PAUSE_SECONDS", 0.01):
            uid = await lab.submit()
            waits = await lab.until(uid, lambda found: "The disk is full" in found.message)
            assert waits.phase is Phase.INITIALIZING
            assert "The disk is full" in (await lab.pods(uid))[0].message
            await lab.eventually(lambda: len(lab.engine.orders) > 3)
            lab.engine.refusal = None
            up = await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        assert up.message == ""
        assert words(await lab.conditions(uid)).count(("Queued", "StartDelayed")) == 1

    served(loop_run, lab, live())


def test_a_deployment_stays_up_when_its_new_revision_is_refused(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        spec = Spec(resources=SMALL, image="old")
        uid = await lab.submit(kind=Kind.DEPLOYMENT, spec=spec)
        await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        lab.engine.refusal = NEVER
        await lab.ask(uid, lambda at: Replaced(at, "zhang", structs.replace(spec, image="new")))
        told = await lab.until(uid, lambda found: "there is no such image" in found.message)
        assert told.phase is Phase.UPDATING
        assert [pod.phase for pod in lab.engine.of(uid)] == [PodPhase.RUNNING]
        lab.engine.refusal = None
        await lab.ask(uid, lambda at: StopAsked(at, "zhang"))
        await lab.until(uid, lambda found: found.phase is Phase.STOPPED)

    served(loop_run, lab, live())


def test_one_pod_that_cannot_be_recorded_keeps_no_other_from_it(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        lab.engine.comes_up = False
        good, bad = await lab.submit(), await lab.submit()
        await lab.eventually(lambda: len(lab.engine.pods) == 2)
        [sick], [well] = lab.engine.of(bad), lab.engine.of(good)
        up = {"phase": PodPhase.RUNNING, "started_at": 1}
        lab.engine.tell(
            Changes(
                nodes=(machine("node-3"),),
                pods=(
                    structs.replace(sick, restarts=1 << 70, **up),
                    structs.replace(well, **up),
                    PodSeen("x", "x", "", 0, 0, "node-1", PodPhase.RUNNING),
                ),
            )
        )
        await lab.until(good, lambda found: found.phase is Phase.RUNNING)
        known = await lab.read(lambda tx: nodes.of_cluster(tx, CLUSTER))
        assert [node.name for node in known] == ["node-1", "node-2", "node-3"]
        lab.engine.report(structs.replace(sick, **up))
        await lab.until(bad, lambda found: found.phase is Phase.RUNNING)

    served(loop_run, lab, live())


def test_a_deployment_that_falls_over_again_and_again_says_so_within_bounds(
    lab: ControllerLab, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await lab.submit(kind=Kind.DEPLOYMENT)
        await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        for restarts in range(1, 130):
            message = f"The command ended with exit code 3. It starts again in {restarts} s."
            lab.engine.change(uid, ready=False, message=message, restarts=restarts)
            fallen = await lab.until(uid, lambda found: found.phase is Phase.DEGRADED)
            assert f"restarted {restarts} time" in fallen.message
            assert message in fallen.message
            lab.engine.change(uid, ready=True, message="", restarts=restarts)
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        kept = await lab.conditions(uid)
        assert len(kept) <= 200
        assert words(kept)[:3] == [("Queued", "Submitted"), ("Dispatched", "Dispatch0"), ("Running", "PodsRunning")]
        assert "restarted 129 times" in kept[-2].message

    served(loop_run, lab, live())


def test_what_never_comes_up_and_a_rollout_that_falls_over_say_so(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        lab.engine.comes_up = False
        spec = Spec(resources=SMALL, replicas=2, image="old")
        uid = await lab.submit(kind=Kind.DEPLOYMENT, spec=spec)
        await lab.eventually(lambda: len(lab.engine.pods) == 2)
        sad = {"ready": False, "phase": PodPhase.RUNNING, "started_at": 1, "message": "The command ended."}
        lab.engine.change(uid, restarts=1, **sad)
        told = await lab.until(uid, lambda found: "restarted 1 time:" in found.message)
        assert (told.phase, told.message.startswith("not all pods stay up (0 of 2 up)")) == (Phase.INITIALIZING, True)
        lab.engine.change(uid, ready=True, phase=PodPhase.RUNNING, message="", started_at=1)
        await lab.until(uid, lambda found: found.phase is Phase.RUNNING and not found.message)
        await lab.ask(uid, lambda at: Replaced(at, "zhang", structs.replace(spec, image="new")))
        await lab.eventually(lambda: len(lab.engine.pods) == 4)
        [first, *_] = [pod for pod in lab.engine.of(uid) if pod.revision == 2]
        lab.engine.report(structs.replace(first, restarts=4, **sad))
        told = await lab.until(uid, lambda found: "restarted 4 times" in found.message)
        assert (told.phase, told.message.startswith("the new revision does not stay up")) == (Phase.UPDATING, True)

    served(loop_run, lab, live())


def test_a_stop_and_a_delete_are_followed(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        stopped, deleted = await lab.submit(), await lab.submit()
        for uid in (stopped, deleted):
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        await lab.ask(stopped, lambda at: StopAsked(at, "zhang"))
        await lab.ask(deleted, lambda at: DeleteAsked(at, "zhang"))
        for uid in (stopped, deleted):
            await lab.until(uid, lambda found: found.phase is Phase.STOPPED)
        await lab.eventually(lambda: deleted in lab.engine.forgotten)
        assert stopped not in lab.engine.forgotten

    served(loop_run, lab, live())


def test_what_depends_on_another_starts_when_that_has_completed(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        first = await lab.submit()
        slug = (await lab.workload(first)).slug
        by_slug = await lab.submit(spec=Spec(resources=SMALL, dependencies=(slug,)))
        by_uid = await lab.submit(spec=Spec(resources=SMALL, dependencies=(first,)))
        await lab.until(first, lambda found: found.phase is Phase.RUNNING)
        await lab.until(by_slug, lambda found: slug in found.waiting)
        lab.engine.end(first)
        for uid in (by_slug, by_uid):
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)

    served(loop_run, lab, live())


def test_a_node_that_is_gone_takes_nothing_and_a_new_one_does(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        held = [await lab.submit(spec=Spec(resources=Resources(8 * MILLI, 100, 1))) for _ in range(2)]
        for uid in held:
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        waits = await lab.submit(spec=Spec(resources=Resources(8 * MILLI, 100, 1)))
        await lab.until(waits, lambda found: bool(found.waiting))
        lab.engine.tell(Changes(nodes=(machine("node-3"),)))
        await lab.until(waits, lambda found: found.phase is Phase.RUNNING)
        assert (await lab.pods(waits))[0].node == "node-3"

    served(loop_run, lab, live())


def test_everything_goes_on_under_a_new_controller(lab: ControllerLab, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with lab.at_work():
            uid = await lab.submit()
            await lab.until(uid, lambda found: found.phase is Phase.RUNNING)
        lab.engine.end(uid)
        queued = await lab.submit()
        lab.engine._news = asyncio.Queue()
        async with lab.at_work():
            await lab.until(uid, lambda found: found.phase is Phase.COMPLETED)
            await lab.until(queued, lambda found: found.phase is Phase.RUNNING)
        assert len([order for order in lab.engine.orders if order.workload_uid == uid]) == 1

    loop_run(live())
