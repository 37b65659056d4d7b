"""The queue loop reads only what has moved, and yet never sees anything but what is in the store."""

import random
import secrets

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.engine.controller.lab import CLUSTER, ControllerLab, workspace
from tests.engine.controller.pretend import PretendEngine, machine
from tests.property.scheduler.test_scheduler_view_moves import in_order

from stoker.controller.observe import record_missing
from stoker.controller.queue import QueueLoop
from stoker.domain.events import DeleteAsked, PodsEnded, PodsUp, Replaced, ResumeAsked, StopAsked
from stoker.domain.identity import Quota
from stoker.domain.resources import MILLI, Resources
from stoker.domain.workload import Kind, Spec, Workload
from stoker.scheduler.view import snapshot
from stoker.store import nodes, pods, workloads, workspaces
from stoker.store.base import Store, Transaction
from stoker.store.under_way import read_cluster

SIZES = (Resources(0, 500, 1), Resources(500, 500, 1), Resources(2 * MILLI, 500, 1))


class Bustle:
    """Everything that others do to a cluster, by chance. What they tell the queue loop is what a controller would."""

    def __init__(self, lab: ControllerLab, queue: QueueLoop, seed: int) -> None:
        self._lab = lab
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
                await self._lab.store.write(lambda tx: workspaces.replace(tx, workspace(1, quota)))
            case _:
                await self._change()

    async def _every(self) -> list[Workload]:
        return await self._lab.read(
            lambda tx: [
                found
                for row in tx.all("SELECT uid FROM workload WHERE deleted_at IS NULL ORDER BY slug")
                if (found := workloads.find(tx, row[0]))
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
        self._queue.note(await self._lab.submit(spec=spec, kind=kind, preemptible=self._dice.random() < 0.5))

    async def _change(self) -> None:
        every = await self._every()
        if not every:
            return
        chosen = self._dice.choice(every)
        bigger = structs.replace(chosen.spec, replicas=self._dice.choice((1, 2, 3)), image=str(self._dice.random()))
        event = self._dice.choice(
            (
                lambda at: StopAsked(at, "zhang"),
                lambda at: DeleteAsked(at, "zhang"),
                lambda at: ResumeAsked(at, "zhang"),
                lambda at: PodsEnded(at, True, "over"),
                lambda at: PodsEnded(at, True, "over"),
                lambda at: Replaced(at, "zhang", bigger),
                PodsUp,
            )
        )
        await self._lab.ask(chosen.uid, event)
        self._queue.note(chosen.uid, chosen.slug)

    async def _lose_pods(self) -> None:
        held = await self._lab.read(lambda tx: pods.held(tx, CLUSTER))
        chosen = sorted(held, key=lambda pod: pod.name)[: self._dice.randrange(3)]
        at = self._lab.clock.now()
        touched = await self._lab.store.write(lambda tx: record_missing(tx, CLUSTER, chosen, at, "lost"))
        for uid in touched:
            self._queue.note(uid)

    async def _change_nodes(self) -> None:
        node = machine(f"node-{self._dice.randrange(4)}", self._dice.choice((2, 8)))
        if self._dice.random() < 0.3:
            await self._lab.store.write(lambda tx: nodes.leave(tx, CLUSTER, [node.name], 1))
        else:
            await self._lab.store.write(lambda tx: nodes.put(tx, CLUSTER, [node], 1))


@pytest.mark.parametrize("seed", range(6))
def test_what_the_queue_sees_is_what_is_in_the_store(store: Store, loop_run: LoopRun, seed: int) -> None:
    lab = ControllerLab(store, PretendEngine([]))
    queue = QueueLoop(store, CLUSTER, lab.clock, secrets.token_bytes)
    bustle = Bustle(lab, queue, seed)

    async def live() -> None:
        await lab.found(Quota(gpu_milli=8 * MILLI))
        await store.write(lambda tx: nodes.put(tx, CLUSTER, [machine("node-0"), machine("node-1")], 1))
        for _ in range(40):
            for _ in range(3):
                await bustle.step()
            await queue.round()
            now = lab.clock.now()
            view, planner = await queue.look(now)
            anew = snapshot(await lab.read(lambda tx: read_cluster(tx, CLUSTER)), now)
            assert in_order(view.snapshot(now)) == in_order(anew)
            assert planner.now == now
            assert await lab.read(_given_twice) == []

    loop_run(live())


def _given_twice(transaction: Transaction) -> list[tuple[str, int]]:
    """Devices of which more is given out than there is."""
    rows = transaction.all(
        "SELECT node, device FROM allocation WHERE to_at IS NULL GROUP BY node, device HAVING SUM(gpu_milli) > 1000"
    )
    return [(row[0], row[1]) for row in rows]
