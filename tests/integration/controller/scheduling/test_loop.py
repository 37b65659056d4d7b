"""The scheduling loop reads only changes, and its cache always equals the store."""

import random
import secrets

import pytest
from msgspec import structs
from tests.clock import ManualClock
from tests.conftest import LoopRun
from tests.integration.controller.fake_engine import FakeEngine, machine
from tests.integration.controller.harness import CLUSTER, ControllerHarness, workspace
from tests.property.scheduler.test_cluster_cache import in_order

from stoker.controller.reconcile.observe import record_missing_pods
from stoker.controller.scheduling.loop import SchedulingLoop
from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import MILLI, Resources
from stoker.domain.workload.events import (
    DeleteRequested,
    Dispatched,
    PodsFinished,
    PodsReady,
    ResumeRequested,
    SpecChanged,
    StopRequested,
)
from stoker.domain.workload.model import Workload
from stoker.domain.workload.spec import Kind, Spec
from stoker.scheduler.cache import build_snapshot
from stoker.scheduler.explain.reasons import StartTimeNotReached
from stoker.store.cluster import nodes
from stoker.store.cluster.state import read_state
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import workspaces
from stoker.store.workloads import pods
from stoker.store.workloads import rows as workload_rows

SIZES = (Resources(0, 500, 1), Resources(500, 500, 1), Resources(2 * MILLI, 500, 1))


class RandomChanges:
    """Everything that others do to a cluster, by chance. What they tell the queue loop is what a controller would."""

    def __init__(self, harness: ControllerHarness, queue: SchedulingLoop, seed: int) -> None:
        self._harness = harness
        self._queue = queue
        self._dice = random.Random(seed)

    async def step(self) -> None:
        match self._dice.randrange(10):
            case 0 | 1 | 2:
                await self._submit()
            case 3:
                await self._lose_pods()
            case 4:
                await self._change_nodes()
            case 5:
                quota = Quota(gpu_milli=self._dice.choice((4, 16)) * MILLI)
                await self._harness.store.write(lambda tx: workspaces.update(tx, workspace(1, quota)))
            case _:
                await self._change()

    async def _every(self) -> list[Workload]:
        return await self._harness.read(
            lambda tx: [
                found
                for row in tx.fetch_all("SELECT uid FROM workload WHERE deleted_at IS NULL ORDER BY slug")
                if (found := workload_rows.find(tx, row[0]))
            ]
        )

    async def _submit(self) -> None:
        others = [name for each in await self._every() for name in (each.uid, each.slug)]
        spec = Spec(
            resources=self._dice.choice(SIZES),
            replicas=self._dice.choice((1, 2)),
            dependencies=tuple(self._dice.sample(others, min(len(others), self._dice.choice((0, 0, 1))))),
        )
        kind = self._dice.choice((Kind.JOB, Kind.DEPLOYMENT))
        self._queue.mark_changed(
            await self._harness.submit(spec=spec, kind=kind, preemptible=self._dice.random() < 0.5)
        )

    async def _change(self) -> None:
        every = await self._every()
        if not every:
            return
        chosen = self._dice.choice(every)
        bigger = structs.replace(chosen.spec, replicas=self._dice.choice((1, 2, 3)), image=str(self._dice.random()))
        event = self._dice.choice(
            (
                lambda at: StopRequested(at, "zhang"),
                lambda at: DeleteRequested(at, "zhang"),
                lambda at: ResumeRequested(at, "zhang"),
                lambda at: PodsFinished(at, True, "over"),
                lambda at: PodsFinished(at, True, "over"),
                lambda at: SpecChanged(at, "zhang", bigger),
                PodsReady,
            )
        )
        await self._harness.ask(chosen.uid, event)
        self._queue.mark_changed(chosen.uid, chosen.slug)

    async def _lose_pods(self) -> None:
        held = await self._harness.read(lambda tx: pods.unreleased(tx, CLUSTER))
        chosen = sorted(held, key=lambda pod: pod.name)[: self._dice.randrange(3)]
        at = self._harness.clock.now()
        touched = await self._harness.store.write(lambda tx: record_missing_pods(tx, CLUSTER, chosen, at, "lost"))
        for uid in touched:
            self._queue.mark_changed(uid)

    async def _change_nodes(self) -> None:
        node = machine(f"node-{self._dice.randrange(4)}", self._dice.choice((2, 8)))
        if self._dice.random() < 0.3:
            await self._harness.store.write(lambda tx: nodes.mark_gone(tx, CLUSTER, [node.name], 1))
        else:
            await self._harness.store.write(lambda tx: nodes.upsert(tx, CLUSTER, [node], 1))


@pytest.mark.parametrize("seed", range(6))
def test_what_the_queue_sees_is_what_is_in_the_store(store: Store, loop_run: LoopRun, seed: int) -> None:
    harness = ControllerHarness(store, FakeEngine([]))
    queue = SchedulingLoop(store, CLUSTER, harness.clock, secrets.token_bytes)
    bustle = RandomChanges(harness, queue, seed)

    async def live() -> None:
        await harness.found(Quota(gpu_milli=8 * MILLI))
        await store.write(lambda tx: nodes.upsert(tx, CLUSTER, [machine("node-0"), machine("node-1")], 1))
        for _ in range(40):
            for _ in range(3):
                await bustle.step()
            await queue.run_cycle()
            now = harness.clock.now()
            view, planner = await queue.refresh(now)
            anew = build_snapshot(await harness.read(lambda tx: read_state(tx, CLUSTER)), now)
            assert in_order(view.snapshot(now)) == in_order(anew)
            assert planner.now == now
            assert await harness.read(_given_twice) == []

    loop_run(live())


def _given_twice(transaction: Transaction) -> list[tuple[str, int]]:
    """Devices of which more is given out than there is."""
    rows = transaction.fetch_all(
        "SELECT node, device FROM allocation WHERE to_at IS NULL GROUP BY node, device HAVING SUM(gpu_milli) > 1000"
    )
    return [(row[0], row[1]) for row in rows]


def test_a_second_wait_for_a_retry_has_the_time_of_that_wait(store: Store, loop_run: LoopRun) -> None:
    harness = ControllerHarness(store, FakeEngine([machine("n1")]))
    clock = harness.clock = ManualClock()

    async def story() -> None:
        await harness.found()
        queue = SchedulingLoop(store, CLUSTER, clock, secrets.token_bytes)
        uid = await harness.submit(max_retry=2)
        times = []
        for _ in range(2):
            for event in (Dispatched, PodsReady, lambda at: PodsFinished(at, False, "pod x exited with code 3")):
                await harness.ask(uid, event)
            again = await harness.workload(uid)
            assert again.pending_message == ""  # nothing is left of the wait before
            assert again.not_before is not None
            queue.mark_changed(uid)
            await queue.run_cycle()
            times.append(again.not_before)
            assert (await harness.workload(uid)).pending_message == StartTimeNotReached(again.not_before).message()
            clock.at = again.not_before
        assert times[0] < times[1]

    loop_run(story())
