"""Foreign workloads: what others run on a cluster is stored, holds its GPUs, and is never touched."""

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness

from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.names import new_uuid4
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Spec
from stoker.engines.model import Delta, EnginePhase, FullSync, ObservedPod, ObservedWorkload, OwnedObject
from stoker.store.db.base import Store
from stoker.store.workloads import allocations, foreign, pods

FOUR = Spec(resources=Resources(4 * MILLI, 100, 1))


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1")]))
    loop_run(made.found())
    return made


def container(name: str = "notebook", **fields: object) -> ObservedWorkload:
    report = ObservedWorkload(
        engine_ref=f"id-of-{name}",
        uid=new_uuid4(),
        kind="Container",
        name=name,
        namespace="elsewhere",
        phase=EnginePhase.RUNNING,
        resources=Resources(4 * MILLI, 100, 1),
        image="pytorch:latest",
        user="somebody",
        labels={"team": "vision"},
        owners=(OwnedObject("project-1", "Project", "stack", "elsewhere"),),
        created_at=1_000,
        started_at=2_000,
    )
    return structs.replace(report, **fields)


def pod_of(owner: ObservedWorkload, devices: tuple[int, ...] = (0, 1, 2, 3), **fields: object) -> ObservedPod:
    report = ObservedPod(
        uid=new_uuid4(),
        name=owner.name,
        workload_uid="",
        attempt=1,
        revision=1,
        node="node-1",
        phase=PodPhase.RUNNING,
        owner_ref=owner.engine_ref,
        engine_uid="container-id",
        created_at=1_000,
        started_at=2_000,
        devices=tuple(map(DeviceRef, devices)),
        resources=owner.resources,
    )
    return structs.replace(report, **fields)


def test_a_foreign_workload_is_stored_with_its_pods_objects_and_gpus(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            report = container()
            harness.engine.tell(Delta(workloads=(report,), pods=(pod_of(report),)))
            stored = await harness.until(report.uid, lambda found: found.phase is Phase.RUNNING)
            assert (stored.managed, stored.kind, stored.name) == (False, "Container", "notebook")
            assert (stored.workspace_id, stored.namespace, stored.user_name) == (0, "elsewhere", "somebody")
            assert (stored.started_at, stored.running_since) == (2_000, 2_000)
            assert stored.spec.labels == {"team": "vision"}
            [pod] = await harness.until_pods(report.uid, lambda found: bool(found and found[0].started_at))
            assert (pod.devices, pod.phase, pod.engine_uid) == ((0, 1, 2, 3), PodPhase.RUNNING, "container-id")
            used = await harness.read(lambda tx: allocations.allocated_milli_by_device(tx, CLUSTER, "node-1"))
            assert used == dict.fromkeys(range(4), MILLI)
            [owned] = await harness.read(lambda tx: foreign.objects_of(tx, report.uid))
            assert (owned.kind, owned.name, owned.owner_uid) == ("Project", "stack", report.uid)

    loop_run(live())


def test_gpus_of_foreign_pods_are_not_given_out(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        report = container()
        harness.engine.tell(Delta(workloads=(report,), pods=(pod_of(report),)))
        async with harness.at_work():
            await harness.until(report.uid, lambda found: found.phase is Phase.RUNNING)
            first, second = await harness.submit(spec=FOUR), await harness.submit(spec=FOUR)
            await harness.until(first, lambda found: found.phase is Phase.RUNNING)
            assert [pod.devices for pod in await harness.pods(first)] == [(4, 5, 6, 7)]
            waits = await harness.until(second, lambda found: bool(found.pending_message))
            assert waits.pending_message == "Needs 4 GPUs on one node; the only node has none free."
            ended = structs.replace(report, phase=EnginePhase.SUCCEEDED, ended_at=3_000)
            [pod] = await harness.pods(report.uid)
            seen = pod_of(report, uid=pod.uid, phase=PodPhase.SUCCEEDED, exit_code=0, ended_at=3_000)
            harness.engine.tell(Delta(workloads=(ended,), pods=(seen,)))
            done = await harness.until(report.uid, lambda found: found.phase is Phase.COMPLETED)
            assert (done.ended_at, done.running_ms) == (3_000, 1_000)
            await harness.until(second, lambda found: found.phase is Phase.RUNNING)
        assert harness.engine.removed == []

    loop_run(live())


def test_a_foreign_workload_that_is_gone_has_ended_and_one_that_runs_again_is_another(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            first, second = container("one"), container("two")
            harness.engine.tell(Delta(workloads=(first, second), pods=(pod_of(first),)))
            await harness.until(second.uid, lambda found: found.phase is Phase.RUNNING)
            again = structs.replace(second, uid=new_uuid4(), started_at=5_000)
            harness.engine.tell(FullSync(tuple(harness.engine.nodes.values()), (), workloads=(again,)))
            gone = await harness.until(first.uid, lambda found: found.phase is Phase.STOPPED)
            assert gone.message == "it was removed from the cluster"
            await harness.until(second.uid, lambda found: found.phase is Phase.STOPPED)
            await harness.until(again.uid, lambda found: found.phase is Phase.RUNNING)
            assert await harness.read(lambda tx: pods.unreleased(tx, CLUSTER)) == []

    loop_run(live())


def test_two_foreign_pods_on_one_gpu_are_charged_for_it_once(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.at_work():
            first, second = container("one"), container("two")
            harness.engine.tell(Delta(workloads=(first, second), pods=(pod_of(first, (0, 1)), pod_of(second, (1, 2)))))
            await harness.until(second.uid, lambda found: found.phase is Phase.RUNNING)
            await harness.until_pods(second.uid, bool)
            used = await harness.read(lambda tx: allocations.allocated_milli_by_device(tx, CLUSTER, "node-1"))
            assert used == dict.fromkeys(range(3), MILLI)

    loop_run(live())


def test_a_foreign_workload_belongs_to_the_workspace_of_its_namespace(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.at_work():
            report = container(namespace="team-1")
            harness.engine.tell(Delta(workloads=(report,)))
            stored = await harness.until(report.uid, lambda found: found.phase is Phase.RUNNING)
            assert stored.workspace_id == 1

    loop_run(live())
