"""Which pods a controller makes, and which of them it orders from its engine."""

import secrets
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness

from stoker.controller.reconcile import effects
from stoker.controller.reconcile.observe import record_pods
from stoker.controller.scheduling.devices import DeviceAllocator
from stoker.controller.scheduling.dispatch import Assignment, create_replacements, dispatch
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.events import SpecChanged
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import Delta, ObservedPod
from stoker.scheduler.cache import ClusterCache
from stoker.store.cluster.state import read_state
from stoker.store.db.base import Store, Transaction
from stoker.store.workloads import allocations


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    nodes = [structs.replace(machine(f"node-{number}"), address=f"10.0.0.{number}") for number in (1, 2)]
    made = ControllerHarness(store, FakeEngine(nodes))
    loop_run(made.found())
    return made


def end(pod: ObservedPod, phase: PodPhase) -> ObservedPod:
    return structs.replace(pod, phase=phase, ready=False, exit_code=0, ended_at=2)


def test_a_pod_of_a_job_that_has_succeeded_is_not_ordered_again(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        spec = Spec(resources=Resources(8 * MILLI, 100, 1), replicas=2)
        async with harness.at_work():
            uid = await harness.submit(kind=Kind.PYTORCH_JOB, spec=spec)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            before = harness.engine.orders.pop()
            master = before.pods[0].uid
            harness.engine.report(end(harness.engine.pods[master], PodPhase.SUCCEEDED))
            await harness.until_pods(uid, lambda found: found[0].phase.is_finished)
        del harness.engine.pods[master]
        async with harness.at_work():  # one that was just started knows nothing of earlier orders
            await harness.eventually(lambda: bool(harness.engine.orders))
            harness.engine.end(uid)
            await harness.until(uid, lambda found: found.phase is Phase.COMPLETED)
        [order] = harness.engine.orders
        assert order.pods == before.pods[1:]

    loop_run(live())


def test_a_lost_pod_of_a_deployment_is_not_ordered_again_while_its_replacement_waits(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        spec = Spec(resources=Resources(8 * MILLI, 100, 1), replicas=2)
        async with harness.at_work():
            uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            lost, kept = harness.engine.orders.pop().pods
            harness.engine.nodes[lost.node] = structs.replace(harness.engine.nodes[lost.node], cordoned=True)
            del harness.engine.pods[lost.uid]
            harness.engine.tell(Delta(nodes=(harness.engine.nodes[lost.node],), gone=(lost.uid,)))
            await harness.until(uid, lambda found: found.phase is Phase.DEGRADED)
        async with harness.at_work():
            await harness.eventually(lambda: bool(harness.engine.orders))
        assert {pod.uid for order in harness.engine.orders for pod in order.pods} == {kept.uid}

    loop_run(live())


def test_a_pod_that_ends_before_its_successor_is_written_has_none_and_its_rank_is_placed_once(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    def ends_in_between(transaction: Transaction, *arguments: Any) -> Any:
        """Another transaction was committed just before this one."""
        record_pods(transaction, CLUSTER, [end(pod, PodPhase.LOST) for pod in ending], harness.clock.now())
        ending.clear()
        return create_replacements(transaction, *arguments)

    ending: list[ObservedPod] = []

    async def live() -> None:
        spec = Spec(resources=Resources(2 * MILLI, 100, 1), replicas=2, image="old")
        uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        first, second = harness.engine.of(uid)
        ending.append(first)
        await harness.ask(uid, lambda at: SpecChanged(at, "zhang", structs.replace(spec, image="new")))
        await harness.eventually(lambda: len(harness.engine.pods) == 4)
        harness.engine.report(end(second, PodPhase.SUCCEEDED))
        await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        alive = [pod for pod in await harness.pods(uid) if not pod.phase.is_finished]
        assert sorted((pod.rank, pod.revision) for pod in alive) == [(0, 2), (1, 2)]
        held = await harness.read(lambda tx: allocations.open_allocations(tx, CLUSTER))
        assert sorted((each.pod_uid, each.device) for each in held) == sorted(
            (pod.uid, device) for pod in alive for device in pod.devices
        )

    async def both() -> None:
        with mock.patch.object(effects, "create_replacements", ends_in_between):
            async with harness.at_work():
                await live()

    loop_run(both())


def test_a_rank_that_has_a_pod_by_now_is_not_placed_again(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        spec = Spec(resources=Resources(MILLI, 100, 1), replicas=1)
        async with harness.at_work():
            uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
        more = structs.replace(spec, replicas=2)
        await harness.ask(uid, lambda at: SpecChanged(at, "zhang", more))
        workload = await harness.workload(uid)
        view = ClusterCache(await harness.read(lambda tx: read_state(tx, CLUSTER)))
        start = Assignment(workload, (1,), ("node-1",))

        def place(transaction: Transaction) -> None:
            dispatch(transaction, CLUSTER, DeviceAllocator(view), [start], harness.clock.now(), secrets.token_bytes)

        await harness.store.write(place)
        await harness.store.write(place)
        assert [pod.rank for pod in await harness.pods(uid)] == [0, 1]

    loop_run(live())
