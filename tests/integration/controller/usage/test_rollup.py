"""Hours are closed from observations: when they are over, and again after late data or a pause of the server."""

import asyncio
import contextlib

import numpy as np
import pytest
from msgspec import structs
from tests.clock import ManualClock
from tests.conftest import LoopRun

from stoker.concurrency.supervisor import Supervisor
from stoker.controller.reconcile.observe import record_nodes, record_pods
from stoker.controller.usage.rollup import CLOSE_DELAY_MS, Rollup
from stoker.controller.usage.snapshots import AllocationSnapshotter
from stoker.domain.access.identity import Cluster
from stoker.domain.cluster.capabilities import SIMULATED_CAPABILITIES
from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS
from stoker.domain.usage.snapshots import SnapshotWorkload
from stoker.domain.workload.lifecycle import submit_transition
from stoker.domain.workload.model import Workload
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.pod import Pod
from stoker.domain.workload.spec import Kind, Spec
from stoker.engines.model import ObservedPod
from stoker.store.cluster import clusters
from stoker.store.db.base import Row, Store, T, Transaction, TransactionFn
from stoker.store.telemetry import gpu_samples
from stoker.store.usage import snapshots
from stoker.store.workloads import allocations, pods, transitions
from stoker.store.workloads.allocations import Allocation
from stoker.telemetry.tsdb.codec import encode_tick
from stoker.telemetry.tsdb.device_index import build_device_index, encode

CLUSTER = "c1"
HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS
MINUTE = 60_000
NODES = [Node("n1", 64_000, 1 << 40, tuple(Device(n, f"u{n}", "H100", 80 << 30) for n in range(4)))]


class RollupHarness:
    """A cluster of four GPUs, of which two are held by one job from minute 15 on; it works from minute 30 on."""

    def __init__(self, store: Store, loop_run: LoopRun, *, with_uuids: bool = False) -> None:
        self.store = store
        self.loop_run = loop_run
        self._with_uuids = with_uuids
        self.clock = ManualClock(HOUR)
        self.rollup = Rollup(store, CLUSTER, self.clock, 1.0)
        loop_run(store.write(self._begin))

    def _begin(self, tx: Transaction) -> None:
        clusters.add(tx, Cluster(CLUSTER, "demo", "simulated", "", HOUR, capabilities=SIMULATED_CAPABILITIES))
        record_nodes(tx, CLUSTER, NODES, HOUR)
        job = Workload(
            uid="w1",
            slug="train-x2k4b",
            name="train",
            kind=Kind.JOB,
            cluster_id=CLUSTER,
            workspace_id=1,
            namespace="ml",
            user_id="u1",
            user_name="ann",
            origin_api="management",
            spec=Spec(resources=Resources(2000, 1000, 1), labels={"team": "nlp"}, annotations={"cost": "c1"}),
            submitted_at=HOUR,
            phase_at=HOUR,
        )
        transitions.add(tx, submit_transition(job))
        pod = Pod(
            uid="p1",
            workload_uid="w1",
            name="train-x2k4b-0",
            attempt=1,
            revision=1,
            rank=0,
            node="n1",
            resources=job.spec.resources,
            devices=(0, 1),
            phase=PodPhase.RUNNING,
            created_at=HOUR + 15 * MINUTE,
            started_at=HOUR + 30 * MINUTE,
        )
        pods.add(tx, CLUSTER, [pod])
        held = [
            Allocation("p1", device, "w1", "n1", "H100", 1000, HOUR + 15 * MINUTE, uuid, device)
            for device, uuid in enumerate(("u0", "u1") if self._with_uuids else ("", ""))
        ]
        allocations.allocate(tx, CLUSTER, held)

    def read_gpus(self, minutes: range, *utilization: float, nodes: list[Node] = NODES) -> None:
        """What the four GPUs said, once a minute."""
        roster = build_device_index(nodes)
        values = np.array(utilization, np.float32)
        used = np.full(4, 40.0 * (1 << 30))

        def change(tx: Transaction) -> None:
            number = gpu_samples.get_or_add_device_index(tx, CLUSTER, encode(roster), roster.gpu_count, HOUR)
            for minute in minutes:
                stripes = encode_tick({GpuMetric.UTILIZATION: values, GpuMetric.MEMORY_USED: used})
                gpu_samples.add_tick(tx, CLUSTER, HOUR + minute * MINUTE, number, stripes)

        self.loop_run(self.store.write(change))

    def close(self, hours: float = 1.0) -> int:
        self.clock.at = HOUR + round(hours * HOUR_MS) + CLOSE_DELAY_MS
        return self.loop_run(self.rollup.catch_up())

    def rows(self, table: str, columns: str, then: str = "") -> list[Row]:
        sql = f"SELECT {columns} FROM {table} {then}"  # noqa: S608 - the words are the tests' own
        return self.loop_run(self.store.read(lambda tx: tx.fetch_all(sql)))

    def ledger(self) -> dict[str, list[float]]:
        """GPU-minutes of faulty, free, starting, unmeasured, busy and idle, by workload, in the first hour."""
        rows = self.rows(
            "ledger", "workload_uid, faulty, free, starting, unmeasured, busy, idle", f"WHERE hour_at = {HOUR}"
        )
        return {row[0]: [amount * 60 / GPU_HOUR for amount in row[1:]] for row in rows}


@pytest.fixture
def scene(store: Store, loop_run: LoopRun) -> RollupHarness:
    return RollupHarness(store, loop_run)


def test_every_minute_of_an_hour_is_accounted_for(scene: RollupHarness) -> None:
    scene.read_gpus(range(45), 0.5, 0.0, 0.0, 0.0)
    assert scene.close() == 1
    assert scene.ledger() == {
        "": [0, 4 * 60 - 2 * 45, 0, 0, 0, 0],
        "w1": [0, 0, 2 * 15, 2 * 14, 16, 16],  # the last reading stands for two minutes
    }


@pytest.mark.parametrize("percent", [0.7, 7, 14, 28, 55, 56])
def test_a_reading_that_is_exactly_the_threshold_is_idle_and_one_step_above_it_is_busy(
    scene: RollupHarness, percent: float
) -> None:
    scene.rollup = Rollup(scene.store, CLUSTER, scene.clock, percent)
    steps = round(percent * 100)
    scene.read_gpus(range(60), steps / 10_000, (steps + 1) / 10_000, 0.0, 0.0)
    scene.close()
    assert scene.ledger()["w1"] == [0, 0, 2 * 15, 0, 30, 30]


def test_rows_of_every_level_say_the_same(scene: RollupHarness) -> None:
    scene.read_gpus(range(60), 0.5, 0.7, 0.0, 0.0)
    scene.close()
    stats = "allocated, utilization, min_utilization, max_utilization, samples"
    told = (90 * GPU_HOUR // 60, 6000, 5000, 7000, 90)
    assert scene.rows("cluster_hour", f"gpus, {stats}") == [(4, *told)]
    assert scene.rows("namespace_hour", f"namespace, gpus, workloads, {stats}") == [("ml", 4, 1, *told)]
    assert scene.rows("dimension_hour", f"kind, key, value, {stats}", "ORDER BY kind") == [
        ("annotation", "cost", "c1", *told),
        ("label", "team", "nlp", *told),
    ]
    names = "uid, slug, name, kind, namespace, phase, requested_milli, memory_used, memory_size, max_replicas"
    assert scene.rows("workload_hour", f"{names}, {stats}") == [
        ("w1", "train-x2k4b", "train", "Job", "ml", "Pending", 2000, 40 << 30, 80 << 30, 1, *told)
    ]


def test_an_hour_is_closed_once_it_is_over_and_not_again(scene: RollupHarness) -> None:
    assert scene.close(0.99) == 0
    assert scene.close(1.0) == 1
    assert scene.close(1.5) == 0
    assert scene.close(2.0) == 1


def test_hours_that_passed_unseen_are_closed_oldest_first(scene: RollupHarness) -> None:
    assert scene.close(30.0) == 30
    found = scene.rows("cluster_hour", "hour_at, id", "ORDER BY id")
    assert found == [(HOUR + n * HOUR_MS, n + 1) for n in range(30)]


class InterruptedStore:
    """A store that reads one part of the hours, has nothing written, and is stopped while it reads the next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads = 0
        self.reached = asyncio.Event()
        self.read_inline = store.read_inline

    async def read(self, query: TransactionFn[T]) -> T:
        self._reads += 1
        if self._reads > 2:  # those that are due, and the first part
            self.reached.set()
            await asyncio.Event().wait()
        return await self._store.read(query)

    async def write(self, change: TransactionFn[T]) -> T:
        if self._reads:
            raise StokerError(ErrorCode.UNAVAILABLE, "The disk is full.")
        return await self._store.write(change)


def test_closing_stops_when_it_is_to_stop_though_what_was_read_could_not_be_written(scene: RollupHarness) -> None:
    async def stopped() -> bool:
        stuck = InterruptedStore(scene.store)
        rollup = Rollup(stuck, CLUSTER, ManualClock(HOUR + 60 * HOUR_MS), 1.0)  # type: ignore[arg-type]
        task = asyncio.create_task(Supervisor(ManualClock()).run("rollup", rollup.run))
        await stuck.reached.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=10)
        ended = task.cancelled()
        task.cancel()
        return ended

    assert scene.loop_run(stopped())


class InstantStore:
    """A store that answers at once, and always has 60 hours to close."""

    async def read_inline(self, _: object) -> list[int]:
        return []

    async def read(self, _: object) -> list[object]:
        return [None] * 60

    async def write(self, _: object) -> None:
        await asyncio.sleep(0)


def test_closing_stops_wherever_it_is(loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped_after(rounds: int) -> int | BaseException:
        task = asyncio.create_task(Rollup(InstantStore(), CLUSTER, ManualClock(HOUR), 1.0).catch_up())  # type: ignore[arg-type]
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    monkeypatch.setattr("stoker.controller.usage.rollup._write_batches", lambda closed: [closed])
    found = [loop_run(stopped_after(rounds)) for rounds in range(1, 12)]
    assert [type(each) for each in found] == [asyncio.CancelledError] * len(found)


def test_hours_that_a_clock_closed_too_soon_are_closed_again_when_they_are_over(scene: RollupHarness) -> None:
    assert scene.close(3.0) == 3
    scene.clock.at = HOUR + 50 * MINUTE  # set right
    over = ObservedPod("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=scene.clock.at)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], scene.clock.at)))
    assert scene.loop_run(scene.rollup.catch_up()) == 0
    assert [scene.close(hours) for hours in (1.0, 1.1, 2.0, 3.0, 4.0, 4.1)] == [1, 0, 1, 1, 1, 0]
    assert scene.rows("workload_hour", "hour_at, allocated") == [(HOUR, 2 * 35 * GPU_HOUR // 60)]
    assert scene.rows("cluster_hour", "allocated", "ORDER BY hour_at") == [(2 * 35 * GPU_HOUR // 60,), (0,), (0,), (0,)]


def test_a_late_reading_closes_its_hour_again(scene: RollupHarness) -> None:
    scene.read_gpus(range(30), 0.5, 0.5, 0.0, 0.0)
    scene.close()
    before = scene.rows("workload_hour", "id, created_at, updated_at, samples")[0]
    scene.read_gpus(range(30, 60), 0.5, 0.5, 0.0, 0.0)
    assert scene.close(1.5) == 1
    after = scene.rows("workload_hour", "id, created_at, updated_at, samples")[0]
    assert after[:2] == before[:2]
    assert after[2] > before[2]
    assert (before[3], after[3]) == (30, 90)


def test_the_end_of_a_pod_that_is_learnt_of_late_corrects_the_hour(scene: RollupHarness) -> None:
    scene.close()

    over = ObservedPod("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=HOUR + 40 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], HOUR + 65 * MINUTE)))
    assert scene.close(1.5) == 1
    assert sum(scene.ledger()["w1"]) == 2 * 25
    assert sum(scene.ledger()[""]) == 4 * 60 - 2 * 25


def test_an_end_by_a_clock_that_is_ahead_frees_the_gpus_when_it_is_learnt_of(scene: RollupHarness) -> None:
    over = ObservedPod("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=HOUR + 50 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], HOUR + 40 * MINUTE)))
    assert scene.rows("allocation", "DISTINCT to_at") == [(HOUR + 40 * MINUTE,)]


def test_the_start_of_a_pod_that_is_learnt_of_late_corrects_the_hour(scene: RollupHarness) -> None:
    def begin(tx: Transaction) -> None:
        pod = structs.replace(pods.by_uid(tx, ["p1"])["p1"], uid="p2", devices=(2,), started_at=None)
        pods.add(tx, CLUSTER, [pod])
        allocations.allocate(tx, CLUSTER, [Allocation("p2", 2, "w1", "n1", "H100", 1000, HOUR)])

    scene.loop_run(scene.store.write(begin))
    scene.close()
    assert scene.ledger()["w1"][2:4] == [2 * 15 + 60, 2 * 30]

    up = ObservedPod("p2", "p2", "w1", 1, 1, "n1", PodPhase.RUNNING, started_at=HOUR + 10 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [up], HOUR + 65 * MINUTE)))
    assert scene.close(1.5) == 1
    assert scene.ledger()["w1"][2:4] == [2 * 15 + 10, 2 * 30 + 50]
    ready = structs.replace(up, ready=True)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [ready], HOUR + 70 * MINUTE)))
    assert scene.close(1.5) == 0


def test_a_gpu_that_is_replaced_by_another_model_counts_as_what_it_was(scene: RollupHarness) -> None:
    other = structs.replace(NODES[0].devices[3], model="MI300X", memory_bytes=192 << 30)
    replaced = structs.replace(NODES[0], devices=(*NODES[0].devices[:3], other))
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [replaced], HOUR + 2 * HOUR_MS)))
    assert scene.close(4) == 4
    free = scene.rows("ledger", "hour_at, model, free", "WHERE workload_uid = '' ORDER BY hour_at, model")
    hours = [(HOUR + n * HOUR_MS, 4 - (2 if n else 1.5) - (n >= 2)) for n in range(4)]
    assert [row for row in free if row[1] == "H100"] == [(at, "H100", gpus * GPU_HOUR) for at, gpus in hours]
    assert [row for row in free if row[1] == "MI300X"] == [(at, "MI300X", GPU_HOUR) for at, _ in hours[2:]]


def test_a_gpu_that_is_replaced_within_an_hour_counts_as_each_for_its_time(scene: RollupHarness) -> None:
    others = [structs.replace(device, model="MI300X", memory_bytes=160 << 30) for device in NODES[0].devices]
    replaced = structs.replace(NODES[0], devices=(others[0], *NODES[0].devices[1:3], others[3]))
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [replaced], HOUR + 45 * MINUTE)))
    scene.read_gpus(range(60), 0.5, 0.7, 0.0, 0.0)
    scene.close()
    accounts = "free, starting, unmeasured, busy, idle"
    told = scene.rows("ledger", f"workload_uid, model, {accounts}", "ORDER BY workload_uid, model")
    assert [(*row[:2], *(amount * 60 / GPU_HOUR for amount in row[2:])) for row in told] == [
        ("", "H100", 2 * 15 + 45 + 60, 0, 0, 0, 0),
        ("", "MI300X", 15, 0, 0, 0, 0),
        ("w1", "H100", 0, 2 * 15, 0, 15 + 30, 0),
        ("w1", "MI300X", 0, 0, 0, 15, 0),
    ]
    assert scene.rows("cluster_hour", "gpus, capacity, samples") == [(4, 4 * GPU_HOUR, 90)]
    names = "allocated, requested_milli, samples, max_utilization, replicas_milli, min_replicas, memory_size"
    size = round((80 * 75 + 160 * 15) / 90 * (1 << 30))
    [row] = scene.rows("workload_hour", names)
    assert row[:-1] == (90 * GPU_HOUR // 60, 2000, 90, 7000, 1000, 1)
    assert abs(row[-1] - size) < 1 << 20


def test_a_faulty_gpu_costs_nobody_busy_or_idle_time(scene: RollupHarness) -> None:
    bad = structs.replace(
        NODES[0], devices=(structs.replace(NODES[0].devices[0], fault="XID 79"), *NODES[0].devices[1:])
    )
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [bad], HOUR + 50 * MINUTE)))
    scene.read_gpus(range(60), 0.5, 0.5, 0.0, 0.0)
    scene.close()
    assert scene.ledger()["w1"] == [10, 0, 30, 0, 50, 0]
    assert sum(map(sum, scene.ledger().values())) == 240


class TestSnapshots:
    def take(self, scene: RollupHarness, minute: int) -> None:
        scene.clock.at = HOUR + minute * MINUTE + 700
        scene.loop_run(AllocationSnapshotter(scene.store, CLUSTER, scene.clock, 300).take_snapshot())

    def test_a_slot_is_kept_once_and_those_that_nobody_saw_are_kept_as_missed(self, scene: RollupHarness) -> None:
        for minute in (20, 22, 40):
            self.take(scene, minute)
        kept = scene.rows("allocation_snapshot", "at, missed", "ORDER BY at")
        assert kept == [
            (HOUR + minute * MINUTE, missed) for minute, missed in ((20, 0), (25, 1), (30, 1), (35, 1), (40, 0))
        ]

    def test_a_slot_that_was_taken_for_missed_by_a_clock_that_was_ahead_is_kept_when_it_comes(
        self, scene: RollupHarness
    ) -> None:
        for minute in (20, 40, 25, 30, 30):
            self.take(scene, minute)
        kept = scene.rows("allocation_snapshot", "at, missed, gpus, allocated_milli", "ORDER BY at")
        assert kept == [
            (HOUR + minute * MINUTE, missed, *held)
            for minute, missed, held in (
                (20, 0, (4, 2000)),
                (25, 0, (4, 2000)),
                (30, 0, (4, 2000)),
                (35, 1, (0, 0)),
                (40, 0, (4, 2000)),
            )
        ]

    def test_who_wakes_up_before_a_slot_takes_no_picture_for_the_one_before(
        self, scene: RollupHarness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scene.clock.at = HOUR + 12 * MINUTE
        wakes = iter([3 * MINUTE - 100, 100])

        async def wake(seconds: float) -> None:
            if (passed := next(wakes, None)) is None:
                raise asyncio.CancelledError
            scene.clock.at += passed

        monkeypatch.setattr(scene.clock, "sleep", wake)
        with contextlib.suppress(asyncio.CancelledError):
            scene.loop_run(AllocationSnapshotter(scene.store, CLUSTER, scene.clock, 300).run())
        assert scene.rows("allocation_snapshot", "at") == [(HOUR + 15 * MINUTE,)]

    def test_it_says_who_held_what(self, scene: RollupHarness) -> None:
        self.take(scene, 20)
        found = scene.loop_run(scene.store.read(lambda tx: snapshots.latest(tx, CLUSTER)))
        assert found is not None
        assert (found.gpus, found.allocated_milli) == (4, 2000)
        assert found.workloads == [SnapshotWorkload("w1", "train", "ml", "Job", 2000, None, {"cost": "c1"})]


def four_gpus(*uuids: str, elsewhere: str = "") -> list[Node]:
    nodes = [("n1", uuids), ("n2", (elsewhere,) if elsewhere else ())]
    return [
        Node(name, 64_000, 1 << 40, tuple(Device(index, uuid, "H100", 80 << 30) for index, uuid in enumerate(found)))
        for name, found in nodes
    ]


@pytest.mark.parametrize("minute", [35, 59, 60])
@pytest.mark.parametrize(
    ("after", "utilization"),
    [
        (four_gpus("u1", "u0", "u3", "u2"), (0.0, 0.5, 0.0, 0.0)),
        (four_gpus("u1", "u3", "u2", elsewhere="u0"), (0.0, 0.0, 0.0, 0.5)),
    ],
    ids=["renumbered", "moved"],
)
def test_gpus_that_change_their_places_keep_their_history(
    store: Store, loop_run: LoopRun, minute: int, after: list[Node], utilization: tuple[float, ...]
) -> None:
    """u0 is busy and u1 idle all the time, whatever their places; the places change within the hour or at its end."""
    scene = RollupHarness(store, loop_run, with_uuids=True)
    scene.read_gpus(range(minute), 0.5, 0.0, 0.0, 0.0)
    loop_run(store.write(lambda tx: record_nodes(tx, CLUSTER, after, HOUR + minute * MINUTE)))
    scene.read_gpus(range(minute, 120), *utilization, nodes=after)
    scene.close(2.0)
    assert scene.ledger() == {"": [0, 4 * 60 - 2 * 45, 0, 0, 0, 0], "w1": [0, 0, 2 * 15, 0, 30, 30]}
    rows = scene.rows("ledger", "faulty, starting, unmeasured, busy, idle", f"WHERE hour_at > {HOUR} AND busy > 0")
    assert rows == [(0, 0, 0, GPU_HOUR, GPU_HOUR)]
    assert scene.rows("cluster_hour", "gpus", "ORDER BY hour_at") == [(4,), (4,)]


def test_a_fault_interval_is_charged_to_the_gpu_that_had_it_although_it_was_renumbered(
    store: Store, loop_run: LoopRun
) -> None:
    scene = RollupHarness(store, loop_run, with_uuids=True)
    faulty = structs.replace(NODES[0].devices[3], fault="XID 79")
    broken = [structs.replace(NODES[0], devices=(*NODES[0].devices[:3], faulty))]
    loop_run(store.write(lambda tx: record_nodes(tx, CLUSTER, broken, HOUR + 20 * MINUTE)))
    after = four_gpus("u3", "u1", "u2", "u0")
    loop_run(store.write(lambda tx: record_nodes(tx, CLUSTER, after, HOUR + 40 * MINUTE)))
    scene.close()
    assert scene.ledger()[""] == [20, 4 * 60 - 2 * 45 - 20, 0, 0, 0, 0]
    assert scene.ledger()["w1"] == [0, 0, 2 * 15, 2 * 30, 0, 0]
