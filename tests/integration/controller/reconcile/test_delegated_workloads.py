"""Delegated workloads: an engine with a queue of its own runs them, and Stoker follows its reports."""

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness, words

from stoker.domain.cluster.capabilities import Capabilities, Owner
from stoker.domain.cluster.node import DeviceRef
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.names import new_uuid4
from stoker.domain.workload.events import DeleteRequested, StopRequested
from stoker.domain.workload.phase import EnginePhase, Phase, PodPhase
from stoker.domain.workload.spec import Spec
from stoker.engines.model import Delta, FullSync, LaunchSpec, ObservedPod, ObservedWorkload, WorkloadRef
from stoker.store.db.base import Store
from stoker.store.workloads import allocations, rows

TWO_GPUS = Spec(resources=Resources(2 * MILLI, 100, 1))


class QueueingEngine(FakeEngine):
    """An engine in memory that queues by itself: a test admits, runs and ends what was submitted."""

    def __init__(self) -> None:
        super().__init__([machine("node-1")])
        self.jobs: dict[str, ObservedWorkload] = {}

    @property
    def capabilities(self) -> Capabilities:
        engine = Owner.ENGINE
        return Capabilities(admission=engine, placement=engine, devices=engine, replacement=engine, identity=engine)

    async def apply(self, launch_spec: LaunchSpec) -> str:
        self.orders.append(launch_spec)
        if self.refusal is not None:
            raise self.refusal
        ref = f"{launch_spec.ref.slug}/{launch_spec.ref.attempt}"
        if ref not in self.jobs:
            self.jobs[ref] = ObservedWorkload(
                engine_ref=ref,
                uid=new_uuid4(),
                workload_uid=launch_spec.ref.uid,
                kind="Job",
                name=launch_spec.ref.slug,
                phase=EnginePhase.QUEUED,
                reason="Priority",
                message="two jobs are ahead of it",
                attempt=launch_spec.ref.attempt,
                created_at=1,
            )
            self.tell(Delta(workloads=(self.jobs[ref],)))
        return ref

    async def terminate(self, ref: WorkloadRef, **options: object) -> None:
        self.removed.append((ref.uid, ref.attempt))
        for job in list(self.jobs.values()):
            if (job.workload_uid, job.attempt) == (ref.uid, ref.attempt) and self.ends_at_once:
                self.move(job.engine_ref, EnginePhase.FAILED)

    def move(self, ref: str, phase: EnginePhase, *pods: ObservedPod, message: str = "") -> None:
        self.jobs[ref] = structs.replace(self.jobs[ref], phase=phase, reason="", message=message)
        self.tell(Delta(workloads=(self.jobs[ref],), pods=pods))


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, QueueingEngine())
    loop_run(made.found())
    return made


def engine_of(harness: ControllerHarness) -> QueueingEngine:
    assert isinstance(harness.engine, QueueingEngine)
    return harness.engine


def pod_of(uid: str, attempt: int = 1, **fields: object) -> ObservedPod:
    report = ObservedPod(
        uid=new_uuid4(),
        name="node-1.step-0",
        workload_uid=uid,
        attempt=attempt,
        revision=1,
        node="node-1",
        phase=PodPhase.RUNNING,
        engine_uid="42.0",
        rank=0,
        created_at=1_000,
        started_at=1_000,
        devices=(DeviceRef(5), DeviceRef(6)),
        resources=TWO_GPUS.resources,
    )
    return structs.replace(report, **fields)


def test_the_engine_admits_places_and_ends_a_workload(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        engine = engine_of(harness)
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            queued = await harness.until(uid, lambda found: found.pending_reason == "Priority")
            assert (queued.phase, queued.attempt, queued.engine_ref) == (Phase.SUBMITTED, 1, "job-1/1")
            assert queued.pending_message == "two jobs are ahead of it"
            assert engine.orders[0].pods == ()
            pod = pod_of(uid)
            engine.move("job-1/1", EnginePhase.RUNNING, pod)
            running = await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            assert running.pending_message == ""
            [stored] = await harness.until_pods(uid, lambda found: bool(found and found[0].started_at))
            assert (stored.name, stored.devices, stored.engine_uid) == ("node-1.step-0", (5, 6), "42.0")
            used = await harness.read(lambda tx: allocations.allocated_milli_by_device(tx, CLUSTER, "node-1"))
            assert used == {5: MILLI, 6: MILLI}
            ended = structs.replace(pod, phase=PodPhase.SUCCEEDED, exit_code=0, ended_at=2_000)
            engine.move("job-1/1", EnginePhase.SUCCEEDED, ended)
            await harness.until(uid, lambda found: found.phase is Phase.COMPLETED)
            await harness.until_read(lambda tx: not allocations.allocated_milli_by_device(tx, CLUSTER, "node-1"))
            assert len(engine.orders) == 1

    loop_run(live())


def test_a_pod_that_fails_or_vanishes_does_not_end_a_workload_that_its_engine_still_runs(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        engine = engine_of(harness)
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            await harness.until(uid, lambda found: found.engine_phase is EnginePhase.QUEUED)
            pod = pod_of(uid)
            engine.move("job-1/1", EnginePhase.RUNNING, pod)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            engine.tell(Delta(pods=(structs.replace(pod, phase=PodPhase.FAILED, exit_code=1, ended_at=2_000),)))
            other = pod_of(uid, rank=None)
            engine.tell(Delta(pods=(other,)))
            pods = await harness.until_pods(uid, lambda found: len(found) == 2)
            assert [pod.rank for pod in pods] == [0, 1]
            engine.tell(Delta(gone=(other.uid,)))
            await harness.until_pods(uid, lambda found: all(pod.phase.is_finished for pod in found))
            assert (await harness.workload(uid)).phase is Phase.RUNNING
            assert engine.removed == []

    loop_run(live())


def test_an_evicted_workload_waits_again_and_spends_no_retry(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        engine = engine_of(harness)
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            await harness.until(uid, lambda found: found.engine_phase is EnginePhase.QUEUED)
            engine.move("job-1/1", EnginePhase.RUNNING)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            engine.move("job-1/1", EnginePhase.EVICTED, message="preempted by a higher priority")
            evicted = await harness.until(uid, lambda found: found.phase is Phase.SUBMITTED)
            assert (evicted.retries, evicted.attempt) == (0, 1)
            assert ("Failover", "Evicted") in words(await harness.conditions(uid))
            engine.move("job-1/1", EnginePhase.RUNNING)
            await harness.until(uid, lambda found: found.phase is Phase.RUNNING)

    loop_run(live())


@pytest.mark.parametrize("queued", [True, False], ids=["queued", "running"])
@pytest.mark.parametrize("event", [StopRequested, DeleteRequested])
def test_a_stop_is_asked_of_the_engine_and_done_when_it_says_so(
    harness: ControllerHarness,
    loop_run: LoopRun,
    queued: bool,
    event: type[StopRequested] | type[DeleteRequested],
) -> None:
    async def live() -> None:
        engine = engine_of(harness)
        engine.ends_at_once = False
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            await harness.until(uid, lambda found: found.engine_phase is EnginePhase.QUEUED)
            if not queued:
                engine.move("job-1/1", EnginePhase.RUNNING)
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
            await harness.ask(uid, lambda at: event(at, "li.wei"))
            await harness.eventually(lambda: engine.removed == [(uid, 1)])
            assert (await harness.workload(uid)).phase.is_terminating
            engine.move("job-1/1", EnginePhase.FAILED, message="cancelled")
            stopped = await harness.until(uid, lambda found: found.phase is Phase.STOPPED)
            assert stopped.message.endswith("by li.wei")

    loop_run(live())


def test_what_the_engine_has_lost_is_submitted_again_and_what_it_never_had_is_not_lost(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    async def live() -> None:
        engine = engine_of(harness)
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            await harness.until(uid, lambda found: found.engine_phase is EnginePhase.QUEUED)
            engine.jobs.clear()
            engine.tell(FullSync(tuple(engine.nodes.values()), ()))
            again = await harness.until(uid, lambda found: found.attempt == 2)
            assert again.retries == 0
            await harness.until(uid, lambda found: found.engine_ref == "job-1/2")

    loop_run(live())


def test_a_rejected_submission_fails_the_workload(harness: ControllerHarness, loop_run: LoopRun) -> None:
    async def live() -> None:
        engine_of(harness).refusal = StokerError(ErrorCode.BAD_REQUEST, "there is no such partition")
        async with harness.at_work():
            uid = await harness.submit(spec=TWO_GPUS)
            failed = await harness.until(uid, lambda found: found.phase is Phase.FAILED)
            assert "there is no such partition" in failed.message
            stored = await harness.read(lambda tx: rows.find(tx, uid))
            assert stored is not None
            assert stored.attempt == 1

    loop_run(live())
