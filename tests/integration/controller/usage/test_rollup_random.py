"""Whatever happens, and however late it is learnt of, hours that were closed on the way are those that would be closed
from all that is known in the end; nothing in them is held twice."""

import random
from collections.abc import Callable

import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.usage.test_rollup import CLUSTER, HOUR, MINUTE, NODES, RollupHarness

from stoker.controller.reconcile.observe import record_missing_pods, record_nodes, record_pods
from stoker.controller.usage.rollup import CLOSE_DELAY_MS
from stoker.domain.usage.ledger import HOUR_MS
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import ObservedPod
from stoker.store.db.base import Store, Transaction
from stoker.store.usage import closed_hours
from stoker.store.workloads import allocations, pods
from stoker.store.workloads.allocations import Allocation

pytestmark = pytest.mark.slow

HOURS = 8
TABLES = {
    "ledger": "*",
    "usage_day": "*",
    "workload_day": "*",
    "workload_hour_count": "*",
    "cluster_hour": "hour_at, gpus, capacity, allocated, samples, utilization, p50, p95",
    "namespace_hour": "hour_at, namespace, allocated, workloads, samples",
    "dimension_hour": "hour_at, kind, key, value, allocated, workloads, samples",
    "workload_hour": "hour_at, uid, allocated, requested_milli, samples, phase, replicas_milli, memory_size",
}


class RandomCluster:
    """A cluster to which one thing happens after the other."""

    def __init__(self, scene: RollupHarness, dice: random.Random) -> None:
        self._scene = scene
        self._dice = dice
        self._held: dict[str, tuple[int, ...]] = {"p1": (0, 1)}
        self._starting: set[str] = set()
        self._made = 1

    def live(self) -> None:
        clock, end = self._scene.clock, HOUR + HOURS * HOUR_MS
        clock.at = HOUR + 16 * MINUTE
        steps = (self.read, self.end, self.lose, self.start, self.place, self.place, self.change, self.close)
        while clock.at < end:
            clock.at += self._dice.randint(0, 10 * MINUTE)
            self._dice.choice(steps)()
        clock.at = end + CLOSE_DELAY_MS
        self.close()

    def read(self) -> None:
        first = max(0, self._learnt_of() - HOUR) // MINUTE
        self._scene.read_gpus(range(first, first + self._dice.randint(1, 10)), *(self._dice.random() for _ in range(4)))

    def end(self) -> None:
        if self._held:
            self._report(self._let_go(), PodPhase.SUCCEEDED, ended_at=self._learnt_of())

    def lose(self) -> None:
        if self._held:
            uid, now = self._let_go(), self._scene.clock.at
            self._write(lambda tx: record_missing_pods(tx, CLUSTER, pods.by_uid(tx, [uid]).values(), now, "it is gone"))

    def start(self) -> None:
        if self._starting:
            uid = self._dice.choice(sorted(self._starting))
            self._starting.remove(uid)
            self._report(uid, PodPhase.RUNNING, started_at=self._learnt_of())

    def place(self) -> None:
        taken = {device for devices in self._held.values() for device in devices}
        free = [device for device in range(4) if device not in taken]
        if free:
            self._made += 1
            uid, now = f"p{self._made}", self._scene.clock.at
            devices = self._held[uid] = tuple(self._dice.sample(free, self._dice.randint(1, len(free))))
            self._starting.add(uid)
            self._write(lambda tx: self._place(tx, uid, devices, now))

    def change(self) -> None:
        """GPUs break, are replaced, or go."""
        devices = [
            self._dice.choice(
                [
                    *(device, device, device),
                    structs.replace(device, fault="XID 79"),
                    structs.replace(device, model="MI300X", memory_bytes=192 << 30),
                ]
            )
            for device in NODES[0].devices
        ]
        left = tuple(devices[: self._dice.choice([3, 4, 4])])
        node = structs.replace(NODES[0], devices=left, ready=self._dice.random() > 0.1)
        self._write(lambda tx: record_nodes(tx, CLUSTER, [node], self._scene.clock.at))

    def close(self) -> None:
        self._scene.loop_run(self._scene.rollup.catch_up())

    def _place(self, transaction: Transaction, uid: str, devices: tuple[int, ...], now: int) -> None:
        like = pods.by_uid(transaction, ["p1"])["p1"]
        pod = structs.replace(like, uid=uid, name=uid, devices=devices, phase=PodPhase.PENDING, created_at=now)
        pods.add(transaction, CLUSTER, [structs.replace(pod, started_at=None, ended_at=None, exit_code=None)])
        held = [Allocation(uid, device, "w1", "n1", "H100", 1000, now, slot=device) for device in devices]
        allocations.allocate(transaction, CLUSTER, held)

    def _report(self, uid: str, phase: PodPhase, started_at: int | None = None, ended_at: int | None = None) -> None:
        seen = ObservedPod(uid, uid, "w1", 1, 1, "n1", phase, started_at=started_at, ended_at=ended_at)
        self._write(lambda tx: record_pods(tx, CLUSTER, [seen], self._scene.clock.at))

    def _let_go(self) -> str:
        uid = self._dice.choice(list(self._held))
        del self._held[uid]
        self._starting.discard(uid)
        return uid

    def _learnt_of(self) -> int:
        """When that happened which is learnt of now; a clock that is ahead says that it is still to come."""
        return self._scene.clock.at - self._dice.choice([0, 0, MINUTE, 70 * MINUTE, 3 * HOUR_MS, -5 * MINUTE])

    def _write(self, change: Callable[[Transaction], object]) -> None:
        self._scene.loop_run(self._scene.store.write(change))


@pytest.mark.parametrize("seed", range(12))
def test_hours_closed_on_the_way_are_those_of_all_that_is_known(seed: int, store: Store, loop_run: LoopRun) -> None:
    scene = RollupHarness(store, loop_run)
    RandomCluster(scene, random.Random(seed)).live()

    def told() -> dict[str, list[str]]:
        return {table: sorted(map(repr, scene.rows(table, columns))) for table, columns in TABLES.items()}

    on_the_way = told()
    hours = [hour for (hour,) in scene.rows("usage_hour", "hour_at")]
    loop_run(store.write(lambda tx: closed_hours.mark_due(tx, CLUSTER, hours)))
    assert loop_run(scene.rollup.catch_up()) == len(hours) == HOURS
    assert told() == on_the_way
    amounts = scene.rows("ledger", "faulty, free, starting, unmeasured, busy, idle")
    assert min(amount for line in amounts for amount in line) >= 0
    assert all(allocated <= capacity for allocated, capacity in scene.rows("cluster_hour", "allocated, capacity"))
