"""How the controller reacts to what its engine does, rejects and reports."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, SMALL, ControllerHarness, words

from stoker.controller.runtime import work_queue
from stoker.domain.clock import SystemClock
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.domain.workload.events import DeleteRequested, SpecChanged, StopRequested
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import Delta, LaunchSpec, ObservedPod
from stoker.store.cluster import nodes
from stoker.store.db.base import Store
from stoker.store.workloads import pods

DOWN = StokerError(ErrorCode.UNAVAILABLE, "The disk is full.")
NEVER = bad_request("image", "there is no such image.")


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1"), machine("node-2")]))
    loop_run(made.found())
    return made


def served(loop_run: LoopRun, harness: ControllerHarness, work: Coroutine[Any, Any, None]) -> None:
    """Do this while the controller is at work."""

    async def both() -> None:
        async with harness.at_work():
            await work

    loop_run(both())


def test_a_job_is_placed_runs_completes_and_is_let_go(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        uid = await harness.submit(spec=Spec(resources=Resources(2 * MILLI, 100, 1), replicas=2, ttl_seconds=0))
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        assert len(await harness.read(lambda tx: pods.unreleased(tx, CLUSTER))) == 2
        harness.engine.end(uid)
        ended = await harness.until(uid, lambda found: found.phase is Phase.COMPLETED)
        assert ended.message == "every pod exited with code 0"
        await harness.eventually(lambda: uid in harness.engine.forgotten)
        assert await harness.read(lambda tx: pods.unreleased(tx, CLUSTER)) == []
        assert words(await harness.conditions(uid)) == [
            ("Queued", "Submitted"),
            ("Dispatched", "Dispatch0"),
            ("Running", "PodsRunning"),
            ("Succeeded", "PodsSucceeded"),
        ]
        assert [len(order.pods) for order in harness.engine.orders] == [2]

    served(loop_run, harness, live())


def test_no_moment_of_a_gpu_is_held_twice_after_the_clock_was_set_back(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    every = Spec(resources=Resources(8 * MILLI, 100, 1), replicas=2)

    class SetBackClock(SystemClock):
        behind_ms = 0

        def now(self) -> int:
            return super().now() - self.behind_ms

    harness.clock = clock = SetBackClock()

    async def live() -> None:
        first = await harness.submit(spec=every)
        await harness.until(first, lambda found: found.phase is Phase.RUNNING)
        over = [structs.replace(pod, phase=PodPhase.SUCCEEDED, exit_code=0) for pod in harness.engine.of(first)]
        harness.engine.report(*over)
        await harness.until(first, lambda found: found.phase is Phase.COMPLETED)
        clock.behind_ms = 60_000
        second = await harness.submit(spec=every)
        await harness.until(second, lambda found: found.phase is Phase.RUNNING)
        held = await harness.read(
            lambda tx: tx.fetch_all("SELECT workload_uid, MIN(from_at), MAX(to_at) FROM allocation GROUP BY 1")
        )
        spans = {uid: (from_at, to_at) for uid, from_at, to_at in held}
        assert spans[second][0] >= spans[first][1]

    served(loop_run, harness, live())


def test_many_jobs_at_once_all_live_once(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        uids = [await harness.submit() for _ in range(60)]
        for uid in uids:
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        for uid in uids:
            harness.engine.end(uid, code=0)
        for uid in uids:
            await harness.until(uid, lambda found: found.phase is Phase.COMPLETED)
        assert sorted(order.ref.uid for order in harness.engine.orders) == sorted(uids)

    served(loop_run, harness, live())


def test_what_an_engine_refuses_for_good_fails_and_says_why(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        harness.engine.refusal = NEVER
        uid = await harness.submit(max_retry=3)
        failed = await harness.until(uid, lambda found: found.phase is Phase.FAILED)
        assert "there is no such image" in failed.message
        assert words(await harness.conditions(uid))[-1] == ("Failed", "StartRefused")
        [pod] = await harness.pods(uid)
        assert pod.phase.is_finished
        assert "there is no such image" in pod.message
        assert await harness.read(lambda tx: pods.unreleased(tx, CLUSTER)) == []
        assert len(harness.engine.orders) == 1

    served(loop_run, harness, live())


def test_a_gang_of_which_some_began_is_ended_when_the_rest_is_refused(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await harness.submit(spec=Spec(resources=SMALL, replicas=2))
        apply = harness.engine.apply

        async def half(launch_spec: LaunchSpec) -> str:
            await apply(structs.replace(launch_spec, pods=launch_spec.pods[:1]))
            raise NEVER

        harness.engine.apply = half
        failed = await harness.until(uid, lambda found: found.phase is Phase.FAILED)
        assert "there is no such image" in failed.message
        assert all(pod.phase.is_finished for pod in await harness.pods(uid))
        assert harness.engine.removed == [(uid, 1)]

    served(loop_run, harness, live())


def test_what_an_engine_cannot_start_now_says_so_and_starts_later(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        harness.engine.refusal = DOWN
        with mock.patch.object(work_queue, "INITIAL_BACKOFF_SECONDS", 0.01):
            uid = await harness.submit()
            waits = await harness.until(uid, lambda found: "The disk is full" in found.message)
            assert waits.phase is Phase.INITIALIZING
            assert "The disk is full" in (await harness.pods(uid))[0].message
            await harness.eventually(lambda: len(harness.engine.orders) > 3)
            harness.engine.refusal = None
            up = await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        assert up.message == ""
        assert words(await harness.conditions(uid)).count(("Queued", "StartDelayed")) == 1

    served(loop_run, harness, live())


def test_a_deployment_stays_up_when_its_new_revision_is_refused(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        spec = Spec(resources=SMALL, image="old")
        uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        harness.engine.refusal = NEVER
        await harness.ask(uid, lambda at: SpecChanged(at, "zhang", structs.replace(spec, image="new")))
        told = await harness.until(uid, lambda found: "there is no such image" in found.message)
        assert told.phase is Phase.UPDATING
        assert [pod.phase for pod in harness.engine.of(uid)] == [PodPhase.RUNNING]
        harness.engine.refusal = None
        await harness.ask(uid, lambda at: StopRequested(at, "zhang"))
        await harness.until(uid, lambda found: found.phase is Phase.STOPPED)

    served(loop_run, harness, live())


def test_a_stop_gives_the_pods_the_grace_that_it_asks_for_and_a_second_one_can_shorten_it(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        usual, slow = await harness.submit(), await harness.submit()
        for uid in (usual, slow):
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        await harness.ask(usual, lambda at: StopRequested(at, "zhang"))
        await harness.until(usual, lambda found: found.phase is Phase.STOPPED)
        harness.engine.ends_at_once = False  # but for a kill
        await harness.ask(slow, lambda at: StopRequested(at, "zhang", 120))
        await harness.eventually(lambda: len(harness.engine.graces) == 2)
        await harness.ask(slow, lambda at: StopRequested(at, "zhang", 0))
        ended = await harness.until(slow, lambda found: found.phase is Phase.STOPPED)
        assert harness.engine.graces == [30, 120, 0]
        assert ended.grace_seconds is None

    served(loop_run, harness, live())


def test_one_pod_that_cannot_be_recorded_keeps_no_other_from_it(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        harness.engine.comes_up = False
        good, bad = await harness.submit(), await harness.submit()
        await harness.eventually(lambda: len(harness.engine.pods) == 2)
        [sick], [well] = harness.engine.of(bad), harness.engine.of(good)
        up = {"phase": PodPhase.RUNNING, "started_at": 1}
        harness.engine.tell(
            Delta(
                nodes=(machine("node-3"),),
                pods=(
                    structs.replace(sick, restarts=1 << 70, **up),
                    structs.replace(well, **up),
                    ObservedPod("x", "x", "", 0, 0, "node-1", PodPhase.RUNNING),
                ),
            )
        )
        await harness.until(good, lambda found: found.phase is Phase.RUNNING)
        known = await harness.read(lambda tx: nodes.of_cluster(tx, CLUSTER))
        assert [node.name for node in known] == ["node-1", "node-2", "node-3"]
        harness.engine.report(structs.replace(sick, **up))
        await harness.until(bad, lambda found: found.phase is Phase.RUNNING)

    served(loop_run, harness, live())


def test_a_deployment_that_falls_over_again_and_again_says_so_within_bounds(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        uid = await harness.submit(kind=Kind.DEPLOYMENT)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        for restarts in range(1, 130):
            message = f"The command ended with exit code 3. It starts again in {restarts} s."
            harness.engine.change(uid, ready=False, message=message, restarts=restarts)
            fallen = await harness.until(uid, lambda found: found.phase is Phase.DEGRADED)
            assert f"restarted {restarts} time" in fallen.message
            assert message in fallen.message
            harness.engine.change(uid, ready=True, message="", restarts=restarts)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        kept = await harness.conditions(uid)
        assert len(kept) <= 200
        assert words(kept)[:3] == [("Queued", "Submitted"), ("Dispatched", "Dispatch0"), ("Running", "PodsRunning")]
        assert "restarted 129 times" in kept[-2].message

    served(loop_run, harness, live())


def test_what_never_comes_up_and_a_rollout_that_falls_over_say_so(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        harness.engine.comes_up = False
        spec = Spec(resources=SMALL, replicas=2, image="old")
        uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
        await harness.eventually(lambda: len(harness.engine.pods) == 2)
        sad = {"ready": False, "phase": PodPhase.RUNNING, "started_at": 1, "message": "The command ended."}
        harness.engine.change(uid, restarts=1, **sad)
        told = await harness.until(uid, lambda found: "restarted 1 time:" in found.message)
        assert (told.phase, told.message.startswith("not all pods stay up (0 of 2 up)")) == (Phase.INITIALIZING, True)
        harness.engine.change(uid, ready=True, phase=PodPhase.RUNNING, message="", started_at=1)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING and not found.message)
        await harness.ask(uid, lambda at: SpecChanged(at, "zhang", structs.replace(spec, image="new")))
        await harness.eventually(lambda: len(harness.engine.pods) == 4)
        [first, *_] = [pod for pod in harness.engine.of(uid) if pod.revision == 2]
        harness.engine.report(structs.replace(first, restarts=4, **sad))
        told = await harness.until(uid, lambda found: "restarted 4 times" in found.message)
        assert (told.phase, told.message.startswith("the new revision does not stay up")) == (Phase.UPDATING, True)

    served(loop_run, harness, live())


def test_a_stop_and_a_delete_are_followed(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        stopped, deleted = await harness.submit(), await harness.submit()
        for uid in (stopped, deleted):
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        await harness.ask(stopped, lambda at: StopRequested(at, "zhang"))
        await harness.ask(deleted, lambda at: DeleteRequested(at, "zhang"))
        for uid in (stopped, deleted):
            await harness.until(uid, lambda found: found.phase is Phase.STOPPED)
        await harness.eventually(lambda: deleted in harness.engine.forgotten)
        assert stopped not in harness.engine.forgotten

    served(loop_run, harness, live())


def test_what_depends_on_another_starts_when_that_has_completed(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        first = await harness.submit()
        slug = (await harness.workload(first)).slug
        by_slug = await harness.submit(spec=Spec(resources=SMALL, dependencies=(slug,)))
        by_uid = await harness.submit(spec=Spec(resources=SMALL, dependencies=(first,)))
        await harness.until(first, lambda found: found.phase is Phase.RUNNING)
        await harness.until(by_slug, lambda found: slug in found.pending_message)
        harness.engine.end(first)
        for uid in (by_slug, by_uid):
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)

    served(loop_run, harness, live())


def test_a_node_that_is_gone_takes_nothing_and_a_new_one_does(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        held = [await harness.submit(spec=Spec(resources=Resources(8 * MILLI, 100, 1))) for _ in range(2)]
        for uid in held:
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        waits = await harness.submit(spec=Spec(resources=Resources(8 * MILLI, 100, 1)))
        await harness.until(waits, lambda found: bool(found.pending_message))
        harness.engine.tell(Delta(nodes=(machine("node-3"),)))
        await harness.until(waits, lambda found: found.phase is Phase.RUNNING)
        assert (await harness.pods(waits))[0].node == "node-3"

    served(loop_run, harness, live())


def test_everything_goes_on_under_a_new_controller(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.at_work():
            uid = await harness.submit()
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        harness.engine.end(uid)
        queued = await harness.submit()
        harness.engine._news = asyncio.Queue()
        async with harness.at_work():
            await harness.until(uid, lambda found: found.phase is Phase.COMPLETED)
            await harness.until(queued, lambda found: found.phase is Phase.RUNNING)
        assert len([order for order in harness.engine.orders if order.ref.uid == uid]) == 1

    loop_run(live())
