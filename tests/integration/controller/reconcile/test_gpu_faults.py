"""A GPU that its samples or its engine report as faulty gets no new pods; its workloads stay or are requeued."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness, new_supervisor, words

from stoker.controller.collect.sampler import Sampler
from stoker.controller.scheduling.loop import SchedulingLoop
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.cluster.samples import GpuFault, GpuSamples, empty_samples
from stoker.domain.settings.schema import GpuFaultAction
from stoker.domain.workload.events import SpecChanged
from stoker.domain.workload.phase import Phase, PodPhase
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import Delta
from stoker.store.cluster import gpu_availability, nodes
from stoker.store.cluster.gpu_availability import GpuIntervalState
from stoker.store.db.base import Store, Transaction

PERIOD_SECONDS = 0.05
ONE = Spec(resources=Resources(MILLI, 100, 1))
ALL = Spec(resources=Resources(8 * MILLI, 100, 1))
XID = GpuFault("node-1", 0, "Its driver reported XID 79.")


class ScriptedSamples:
    """A source that says what a test wants."""

    name = "readout"

    def __init__(self) -> None:
        self.faults: tuple[GpuFault, ...] = ()

    async def collect(self) -> GpuSamples:
        return structs.replace(empty_samples(1, ("node-1",)), faults=self.faults)

    async def close(self) -> None: ...


class FaultHarness(ControllerHarness):
    def __init__(self, store: Store) -> None:
        super().__init__(store, FakeEngine([machine("node-1")]))
        self.source = ScriptedSamples()

    @contextlib.asynccontextmanager
    async def watched(self, action: GpuFaultAction = GpuFaultAction.KEEP) -> AsyncGenerator[None]:
        """A controller and a sampler at work."""
        async with self.at_work(gpu_fault_action=action) as controller:
            sampler = Sampler(
                self.store,
                self.source,
                CLUSTER,
                self.clock,
                self.news,
                new_supervisor(self.clock),
                PERIOD_SECONDS,
                gpu_fault_action=action,
                on_faults=controller.nodes_changed,
            )
            task = asyncio.create_task(sampler.run())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def say(self, *faults: GpuFault) -> None:
        """Let the readings say that these GPUs are faulty, and wait until that is written."""
        self.source.faults = faults
        async with asyncio.timeout(20):
            while tuple(await self.read(lambda tx: gpu_availability.reported_faults(tx, CLUSTER))) != faults:
                await asyncio.sleep(0.01)


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> FaultHarness:
    made = FaultHarness(store)
    loop_run(made.found())
    return made


def test_a_gpu_that_says_it_is_faulty_takes_nothing_until_it_is_well_again(
    harness: FaultHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        async with harness.watched():
            await harness.say(XID)
            small = await harness.submit(spec=ONE)
            await harness.until(small, lambda found: found.phase is Phase.RUNNING)
            assert [pod.devices for pod in await harness.pods(small)] == [(1,)]
            harness.engine.end(small)
            large = await harness.submit(spec=ALL)
            waits = await harness.until(large, lambda found: "has 7 free" in found.pending_message)
            assert waits.pending_message == (
                "Needs 8 GPUs on one node; the only node has 7 free. 1 GPU is faulty and unavailable."
            )
            await harness.say()
            await harness.until(large, lambda found: found.phase is Phase.RUNNING)

    loop_run(live())


def test_a_gpu_that_becomes_faulty_while_a_plan_is_made_is_not_given_out(
    harness: FaultHarness, loop_run: LoopRun
) -> None:
    """The plan was made for a healthy GPU; the fault is stored before the plan is."""

    async def live() -> None:
        await harness.store.write(lambda tx: nodes.upsert(tx, CLUSTER, [machine("node-1", 1)], 1))
        uid = await harness.submit(spec=ONE)
        loop = SchedulingLoop(harness.store, CLUSTER, harness.clock, secrets.token_bytes)
        write = SchedulingLoop._write

        def fault_first(self: SchedulingLoop, transaction: Transaction, *arguments: Any) -> Any:
            nodes.report_faults(transaction, CLUSTER, [XID], 2)
            return write(self, transaction, *arguments)

        with mock.patch.object(SchedulingLoop, "_write", fault_first):
            result = await loop.run_cycle()
        assert (await harness.workload(uid)).attempt == 0
        assert await harness.pods(uid) == []
        assert result.next_at is not None, "it is planned again at once"
        await loop.run_cycle()
        assert (await harness.workload(uid)).attempt == 0
        await harness.store.write(lambda tx: nodes.report_faults(tx, CLUSTER, [], 3))
        await loop.run_cycle()
        assert [pod.devices for pod in await harness.pods(uid)] == [(0,)]

    loop_run(live())


def test_a_node_shows_the_fault_that_its_gpu_has_now(harness: FaultHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        more = structs.replace(XID, message="Its driver cannot reach it: GPU is lost.")
        async with harness.watched():
            await harness.say(XID)
            await harness.say(more)
            [node] = await harness.read(lambda tx: nodes.of_cluster(tx, CLUSTER))
            assert node.devices[0].fault == more.message
            found = await harness.read(lambda tx: gpu_availability.intervals_in_range(tx, CLUSTER, 0, 1 << 60))
            assert [each.device for each in found if each.state is GpuIntervalState.REPORTED] == [0], "one fault"

    loop_run(live())


def test_a_fault_outlives_the_server_until_a_reading_says_otherwise(harness: FaultHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.watched():
            await harness.say(XID)
        async with harness.at_work():
            uid = await harness.submit(spec=ONE)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            assert [pod.devices for pod in await harness.pods(uid)] == [(1,)]

    loop_run(live())


def test_what_runs_on_a_faulty_gpu_is_kept(harness: FaultHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.watched():
            uid = await harness.submit(spec=ONE)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            await harness.say(XID)
            other = await harness.submit(spec=ONE)
            await harness.until(other, lambda found: found.phase is Phase.RUNNING)
            assert (await harness.workload(uid)).attempt == 1
            assert harness.engine.removed == []

    loop_run(live())


@pytest.mark.parametrize("by_engine", [False, True], ids=["readings", "engine"])
def test_what_runs_on_a_faulty_gpu_is_moved_without_spending_a_retry(
    harness: FaultHarness, loop_run: LoopRun, by_engine: bool
) -> None:
    async def live() -> None:
        async with harness.watched(GpuFaultAction.REQUEUE):
            uid, beside = await harness.submit(spec=ONE), await harness.submit(spec=ONE)
            for each in (uid, beside):
                await harness.until(each, lambda found: found.phase is Phase.RUNNING)
            if by_engine:
                first, *others = harness.engine.nodes["node-1"].devices
                devices = (structs.replace(first, fault=XID.message), *others)
                harness.engine.tell(Delta(nodes=(structs.replace(harness.engine.nodes["node-1"], devices=devices),)))
            else:
                await harness.say(XID)
            moved = await harness.until(uid, lambda found: found.attempt == 2 and found.phase is Phase.RUNNING)
            assert moved.retries == 0
            assert [pod.devices for pod in await harness.pods(uid)] == [(0,), (2,)]
            [condition] = [each for each in await harness.conditions(uid) if each.type == "Failover"]
            assert condition.reason == "GpuFault"
            assert condition.message == "GPU 0 of node node-1 is faulty: Its driver reported XID 79."
            assert ("Failover", "GpuFault") not in words(await harness.conditions(beside))

    loop_run(live())


def test_a_new_revision_does_not_take_the_place_of_a_pod_with_a_faulty_gpu(
    harness: FaultHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        spec = Spec(resources=Resources(MILLI, 100, 1), replicas=2, image="old")
        async with harness.watched():
            uid = await harness.submit(kind=Kind.DEPLOYMENT, spec=spec)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            old = harness.engine.of(uid)
            await harness.say(XID)
            await harness.ask(uid, lambda at: SpecChanged(at, "zhang", structs.replace(spec, image="new")))
            await harness.eventually(lambda: len(harness.engine.pods) == 4)
            ended = {"phase": PodPhase.FAILED, "ready": False, "ended_at": 2}
            harness.engine.report(*(structs.replace(pod, **ended) for pod in old))
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            new = [pod for pod in await harness.pods(uid) if pod.revision == 2]
            assert sorted((pod.rank, pod.devices) for pod in new) == [(0, (2,)), (1, (1,))]

    loop_run(live())


def test_a_node_says_what_is_wrong_with_its_gpu(harness: FaultHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        async with harness.watched():
            await harness.say(XID)
            [node] = await harness.read(lambda tx: nodes.of_cluster(tx, CLUSTER))
            assert [device.fault for device in node.devices] == [XID.message, *[""] * 7]
            [told] = await harness.read(lambda tx: nodes.reported_by_engine(tx, CLUSTER))
            assert told == harness.engine.nodes["node-1"]

    loop_run(live())
