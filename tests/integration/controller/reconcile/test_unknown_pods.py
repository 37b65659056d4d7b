"""Pods that run though the store, which was restored to an earlier day, does not have them."""

from unittest import mock

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness

from stoker.controller.reconcile import orphan_pods
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import new_uuid4
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import ObservedPod
from stoker.store.db.base import Store
from stoker.store.workloads import pods

ALL = Spec(resources=Resources(8 * MILLI, 100, 1))
HALF = Spec(resources=Resources(4 * MILLI, 100, 1))


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    made.engine.ends_at_once = False
    loop_run(made.found())
    return made


def stray(workload_uid: str, attempt: int, devices: tuple[int, ...] | None) -> ObservedPod:
    return ObservedPod(
        uid=new_uuid4(),
        name="job-0",
        workload_uid=workload_uid,
        attempt=attempt,
        revision=1,
        node="node-1",
        phase=PodPhase.RUNNING,
        started_at=1,
        devices=None if devices is None else tuple(map(DeviceRef, devices)),
        resources=Resources(len(devices or ()) * MILLI, 100, 1),
    )


def ended(pod: ObservedPod) -> ObservedPod:
    return structs.replace(pod, phase=PodPhase.FAILED, ready=False, ended_at=2)


@pytest.mark.parametrize("devices", [tuple(range(8)), None], ids=["told", "not told"])
def test_an_attempt_that_the_store_does_not_know_is_ended_before_its_gpus_are_given_out(
    harness: ControllerHarness, loop_run: LoopRun, devices: tuple[int, ...] | None
) -> None:
    async def live() -> None:
        known, other = await harness.submit(spec=ALL), await harness.submit(spec=HALF)
        left = stray(known, 2, devices)
        harness.engine.report(left)
        async with harness.at_work():
            await harness.eventually(lambda: harness.engine.removed == [(known, 2)])
            waits = await harness.until(other, lambda found: bool(found.pending_message))
            assert waits.pending_message == "Needs 4 GPUs on one node; the only node has none free."
            assert "they are being ended" in (await harness.workload(known)).pending_message
            assert await harness.read(lambda tx: pods.unreleased(tx, CLUSTER)) == []
            harness.engine.report(ended(left))
            await harness.until(known, lambda found: found.phase is Phase.RUNNING)
            assert [pod.attempt for pod in await harness.pods(known)] == [1]

    loop_run(live())


def test_what_a_stray_does_not_hold_is_given_out_meanwhile(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        harness.engine.report(stray(new_uuid4(), 1, (0, 1, 2, 3)))
        async with harness.at_work():
            uid = await harness.submit(spec=HALF)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            assert [pod.devices for pod in await harness.pods(uid)] == [(4, 5, 6, 7)]

    loop_run(live())


def test_of_an_attempt_that_goes_on_only_the_pod_that_is_not_known_is_ended(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=HALF)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        [known] = harness.engine.of(uid)
        left = stray(uid, 1, (4, 5, 6, 7))
        harness.engine.ends_at_once = True
        harness.engine.report(left)
        async with harness.at_work():
            await harness.eventually(lambda: harness.engine.pods[left.uid].phase.is_finished)
            assert not harness.engine.pods[known.uid].phase.is_finished
            assert (await harness.workload(uid)).phase is Phase.RUNNING

    loop_run(live())


def test_a_pod_that_the_store_holds_for_ended_is_ended(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.at_work():
            uid = await harness.submit(spec=ALL)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            [pod] = harness.engine.of(uid)
            harness.engine.report(structs.replace(pod, phase=PodPhase.FAILED, exit_code=1, ended_at=2))
            await harness.until(uid, lambda found: found.phase is Phase.FAILED)
        harness.engine.report(pod)
        other = await harness.submit(spec=ALL)
        async with harness.at_work():
            await harness.eventually(lambda: harness.engine.removed == [(uid, 1)])
            assert (await harness.until(other, lambda found: bool(found.pending_message))).phase is Phase.PENDING
            harness.engine.report(ended(pod))
            await harness.until(other, lambda found: found.phase is Phase.RUNNING)

    loop_run(live())


def test_an_engine_that_could_not_end_a_stray_is_asked_again(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        harness.engine.keeps = StokerError(ErrorCode.UNAVAILABLE, "The machine does not answer.")
        harness.engine.ends_at_once = True
        left = stray(new_uuid4(), 1, tuple(range(8)))
        harness.engine.report(left)
        uid = await harness.submit(spec=ALL)
        with mock.patch.object(orphan_pods, "INITIAL_BACKOFF_SECONDS", 0.01):
            async with harness.at_work():
                await harness.eventually(lambda: len(harness.engine.removed) > 2)
                assert (await harness.workload(uid)).phase is Phase.PENDING
                harness.engine.keeps = None
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)

    loop_run(live())
