"""A cluster is controlled whatever fails, until another server holds its lease."""

import asyncio
from collections.abc import Sequence
from unittest import mock

import pytest
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, SMALL, ControllerHarness

from stoker.concurrency.retry import backoff_seconds
from stoker.concurrency.supervisor import LoopRegistry, Supervisor
from stoker.controller.cluster import ClusterController
from stoker.controller.reconcile.effects import EngineEffects
from stoker.controller.runtime import work_queue
from stoker.controller.runtime.lease import LEASE_DURATION_MS, Lease, LeaseLostError
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.events import DeleteRequested
from stoker.domain.workload.phase import Phase
from stoker.domain.workload.spec import Spec
from stoker.engines.model import LaunchSpec, WorkloadRef
from stoker.store.cluster import leases
from stoker.store.db.base import Store
from stoker.store.workloads.events import WorkloadEventRow

DOWN = StokerError(ErrorCode.UNAVAILABLE, "The disk is full.")


@pytest.fixture
def harness(store: Store, loop_run: LoopRun) -> ControllerHarness:
    made = ControllerHarness(store, FakeEngine([machine("node-1"), machine("node-2")]))
    loop_run(made.found())
    return made


def test_a_failure_while_a_failure_is_handled_does_not_leave_the_cluster_undriven(
    harness: ControllerHarness, loop_run: LoopRun
) -> None:
    calls = 0

    def overflowing(failures: int, **limits: float) -> float:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OverflowError("int too large to convert to float")
        return backoff_seconds(failures, **{**limits, "first": 0.01, "longest": 0.01})

    async def live() -> None:
        harness.engine.refusal = DOWN
        loops = LoopRegistry()
        harness.supervisor = Supervisor(harness.clock, loops, "local", stop_on=(LeaseLostError,))
        async with harness.at_work():
            first = await harness.submit()
            await harness.eventually(lambda: calls > 1)
            harness.engine.refusal = None
            await harness.until(first, lambda found: found.phase is Phase.RUNNING)
            second = await harness.submit()
            await harness.until(second, lambda found: found.phase is Phase.RUNNING)
        assert {state.name: state.restarts for state in loops.list_states()}["reconcile"] == 1

    with mock.patch.object(work_queue, "backoff_seconds", overflowing):
        loop_run(live())


class HookedEngine(FakeEngine):
    """Lets a test do something just before an order is carried out, and says what was done."""

    def __init__(self) -> None:
        super().__init__([machine("node-1")])
        self.applied = asyncio.Event()
        self.done: list[str] = []

    async def apply(self, launch_spec: LaunchSpec) -> str:
        self.done.append("apply")
        applied = await super().apply(launch_spec)
        self.applied.set()
        return applied

    async def release(self, ref: WorkloadRef) -> None:
        self.done.append("forget")
        await super().release(ref)

    async def purge(self, ref: WorkloadRef) -> None:
        self.done.append("discard")


@pytest.mark.parametrize("effect", ["apply", "forget", "discard"])
def test_no_effect_reaches_the_engine_once_the_lease_is_anothers(store: Store, loop_run: LoopRun, effect: str) -> None:
    """The step was decided while the lease held; the server was frozen before it took it."""
    engine = HookedEngine()
    harness = ControllerHarness(store, engine)

    async def live() -> None:
        await harness.found()
        clock = ManualClock(1_000_000)
        leased = await Lease(store, CLUSTER, "one", clock, takeover=False).acquire()
        harness.store = leased  # type: ignore[assignment]
        act = EngineEffects.execute
        frozen = asyncio.Event()

        async def lose_first(self: EngineEffects, state: object, step: object) -> bool:
            name = type(step).__name__
            if name == ("EnsurePods" if effect == "apply" else "ReleaseAttempt"):
                until = clock.now() + 10 * LEASE_DURATION_MS
                await store.write(
                    lambda tx: leases.acquire(
                        tx, CLUSTER, "two", until - LEASE_DURATION_MS, LEASE_DURATION_MS, takeover=True
                    )
                )
                frozen.set()
            return await act(self, state, step)  # type: ignore[arg-type]

        with mock.patch.object(EngineEffects, "execute", lose_first):
            controller = harness.controller()
            run = asyncio.create_task(controller.run())
            harness.store = store
            uid = await harness.submit(spec=Spec(resources=SMALL, ttl_seconds=0))
            if effect != "apply":
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)
                if effect == "discard":
                    await harness.ask(uid, lambda at: DeleteRequested(at, "li.wei"))
                else:
                    engine.end(uid)
            clock.at += 2 * LEASE_DURATION_MS
            with pytest.raises(ExceptionGroup) as caught:
                await asyncio.wait_for(run, 20)
        assert caught.value.subgroup(LeaseLostError) is not None
        assert frozen.is_set()
        assert effect not in engine.done

    loop_run(live())


def test_a_change_whose_handling_failed_is_handled_again(harness: ControllerHarness, loop_run: LoopRun) -> None:
    follow = ClusterController._process_events
    failed: list[int] = []

    async def failing_once(self: ClusterController, rows: Sequence[WorkloadEventRow]) -> None:
        if not failed:
            failed.append(len(rows))
            raise DOWN
        await follow(self, rows)

    async def live() -> None:
        async with harness.at_work():
            with mock.patch.object(ClusterController, "_process_events", failing_once):
                uid = await harness.submit()
                await harness.until(uid, lambda found: found.phase is Phase.RUNNING)

    loop_run(live())
    assert failed
