"""Hours are closed from what was observed: once they are over, again when something came late, whoever was away."""

import asyncio
import contextlib

import numpy as np
import pytest
from msgspec import structs
from tests.conftest import LoopRun

from stoker.controller.forever import forever
from stoker.controller.observe import record_nodes, record_pods
from stoker.controller.rollup import LATE_MS, Rollup
from stoker.controller.snapshots import Snapshots
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.identity import Cluster
from stoker.domain.lifecycle import created
from stoker.domain.node import Device, Node
from stoker.domain.readings import Metric
from stoker.domain.resources import Resources
from stoker.domain.usage import GPU_HOUR, HOUR_MS, SnapshotWorkload
from stoker.domain.workload import Kind, Pod, PodPhase, Spec, Workload
from stoker.engines.base import PodSeen
from stoker.store import clusters, pods, samples, snapshots, workloads
from stoker.store.base import Change, Row, Store, T, Transaction
from stoker.store.pods import Allocation
from stoker.telemetry.chunks import encode_tick
from stoker.telemetry.roster import encode, roster_of

CLUSTER = "c1"
HOUR = 1_700_000_000_000 // HOUR_MS * HOUR_MS
MINUTE = 60_000
NODES = [Node("n1", 64_000, 1 << 40, tuple(Device(n, f"u{n}", "H100", 80 << 30) for n in range(4)))]


class Moment:
    """A clock that is set."""

    def __init__(self, at: int) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


class Scene:
    """A cluster of four GPUs, of which two are held by one job from minute 15 on; it works from minute 30 on."""

    def __init__(self, store: Store, loop_run: LoopRun) -> None:
        self.store = store
        self.loop_run = loop_run
        self.clock = Moment(HOUR)
        self.rollup = Rollup(store, CLUSTER, self.clock, 1.0)
        loop_run(store.write(self._begin))

    def _begin(self, tx: Transaction) -> None:
        clusters.add(tx, Cluster(CLUSTER, "demo", "simulated", "", HOUR))
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
            origin_api="safe",
            spec=Spec(resources=Resources(2000, 1000, 1), labels={"team": "nlp"}, annotations={"cost": "c1"}),
            submitted_at=HOUR,
            phase_at=HOUR,
        )
        workloads.add(tx, created(job))
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
        held = [Allocation("p1", device, "w1", "n1", "H100", 1000, HOUR + 15 * MINUTE) for device in (0, 1)]
        pods.allocate(tx, CLUSTER, held)

    def read_gpus(self, minutes: range, *utilization: float) -> None:
        """What the four GPUs said, once a minute."""
        roster = roster_of(NODES)
        values = np.array(utilization, np.float32)
        used = np.full(4, 40.0 * (1 << 30))

        def change(tx: Transaction) -> None:
            number = samples.roster_for(tx, CLUSTER, encode(roster), roster.gpus, HOUR)
            for minute in minutes:
                stripes = encode_tick({Metric.UTILIZATION: values, Metric.MEMORY_USED: used})
                samples.add_tick(tx, CLUSTER, HOUR + minute * MINUTE, number, stripes)

        self.loop_run(self.store.write(change))

    def close(self, hours: float = 1.0) -> int:
        self.clock.at = HOUR + round(hours * HOUR_MS) + LATE_MS
        return self.loop_run(self.rollup.catch_up())

    def rows(self, table: str, columns: str, then: str = "") -> list[Row]:
        sql = f"SELECT {columns} FROM {table} {then}"  # noqa: S608 - the words are the tests' own
        return self.loop_run(self.store.read(lambda tx: tx.all(sql)))

    def ledger(self) -> dict[str, list[float]]:
        """GPU-minutes of faulty, free, starting, unmeasured, busy and idle, by payer, in the first hour."""
        rows = self.rows("ledger", "payer, faulty, free, starting, unmeasured, busy, idle", f"WHERE hour_at = {HOUR}")
        return {row[0]: [amount * 60 / GPU_HOUR for amount in row[1:]] for row in rows}


@pytest.fixture
def scene(store: Store, loop_run: LoopRun) -> Scene:
    return Scene(store, loop_run)


def test_every_minute_of_an_hour_is_accounted_for(scene: Scene) -> None:
    scene.read_gpus(range(45), 0.5, 0.0, 0.0, 0.0)
    assert scene.close() == 1
    assert scene.ledger() == {
        "": [0, 4 * 60 - 2 * 45, 0, 0, 0, 0],
        "w1": [0, 0, 2 * 15, 2 * 14, 16, 16],  # the last reading stands for two minutes
    }


def test_rows_of_every_level_say_the_same(scene: Scene) -> None:
    scene.read_gpus(range(60), 0.5, 0.7, 0.0, 0.0)
    scene.close()
    stats = "allocated, utilization, lowest, highest, samples"
    told = (90 * GPU_HOUR // 60, 6000, 5000, 7000, 90)
    assert scene.rows("cluster_hour", f"gpus, {stats}") == [(4, *told)]
    assert scene.rows("namespace_hour", f"namespace, gpus, workloads, {stats}") == [("ml", 4, 1, *told)]
    assert scene.rows("dimension_hour", f"kind, key, value, {stats}", "ORDER BY kind") == [
        ("annotation", "cost", "c1", *told),
        ("label", "team", "nlp", *told),
    ]
    names = "uid, slug, name, kind, namespace, phase, requested_milli, memory_used, memory_size, replicas_highest"
    assert scene.rows("workload_hour", f"{names}, {stats}") == [
        ("w1", "train-x2k4b", "train", "Job", "ml", "Pending", 2000, 40 << 30, 80 << 30, 1, *told)
    ]


def test_an_hour_is_closed_once_it_is_over_and_not_again(scene: Scene) -> None:
    assert scene.close(0.99) == 0
    assert scene.close(1.0) == 1
    assert scene.close(1.5) == 0
    assert scene.close(2.0) == 1


def test_hours_that_passed_unseen_are_closed_oldest_first(scene: Scene) -> None:
    assert scene.close(30.0) == 30
    found = scene.rows("cluster_hour", "hour_at, id", "ORDER BY id")
    assert found == [(HOUR + n * HOUR_MS, n + 1) for n in range(30)]


class Stuck:
    """A store that reads one part of the hours, has nothing written, and is stopped while it reads the next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reads = 0
        self.reached = asyncio.Event()
        self.peek = store.peek

    async def read(self, query: Change[T]) -> T:
        self._reads += 1
        if self._reads > 2:  # those that are due, and the first part
            self.reached.set()
            await asyncio.Event().wait()
        return await self._store.read(query)

    async def write(self, change: Change[T]) -> T:
        if self._reads:
            raise StokerError(ErrorCode.BACKEND_DOWN, "The disk is full.")
        return await self._store.write(change)


def test_closing_stops_when_it_is_to_stop_though_what_was_read_could_not_be_written(scene: Scene) -> None:
    async def stopped() -> bool:
        stuck = Stuck(scene.store)
        rollup = Rollup(stuck, CLUSTER, Moment(HOUR + 60 * HOUR_MS), 1.0)  # type: ignore[arg-type]
        task = asyncio.create_task(forever(rollup.run, CLUSTER))
        await stuck.reached.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task], timeout=0.5)
        ended = task.cancelled()
        task.cancel()
        return ended

    assert scene.loop_run(stopped())


class Quick:
    """A store that answers at once, and always has 60 hours to close."""

    async def peek(self, _: object) -> list[int]:
        return []

    async def read(self, _: object) -> list[object]:
        return [None] * 60

    async def write(self, _: object) -> None:
        await asyncio.sleep(0)


def test_closing_stops_wherever_it_is(loop_run: LoopRun, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stopped_after(rounds: int) -> int | BaseException:
        task = asyncio.create_task(Rollup(Quick(), CLUSTER, Moment(HOUR), 1.0).catch_up())  # type: ignore[arg-type]
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    monkeypatch.setattr("stoker.controller.rollup._together", lambda closed: [closed])
    found = [loop_run(stopped_after(rounds)) for rounds in range(1, 12)]
    assert [type(each) for each in found] == [asyncio.CancelledError] * len(found)


def test_hours_that_a_clock_closed_too_soon_are_closed_again_when_they_are_over(scene: Scene) -> None:
    assert scene.close(3.0) == 3
    scene.clock.at = HOUR + 50 * MINUTE  # set right
    over = PodSeen("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=scene.clock.at)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], scene.clock.at)))
    assert scene.loop_run(scene.rollup.catch_up()) == 0
    assert [scene.close(hours) for hours in (1.0, 1.1, 2.0, 3.0, 4.0, 4.1)] == [1, 0, 1, 1, 1, 0]
    assert scene.rows("workload_hour", "hour_at, allocated") == [(HOUR, 2 * 35 * GPU_HOUR // 60)]
    assert scene.rows("cluster_hour", "allocated", "ORDER BY hour_at") == [(2 * 35 * GPU_HOUR // 60,), (0,), (0,), (0,)]


def test_a_late_reading_closes_its_hour_again(scene: Scene) -> None:
    scene.read_gpus(range(30), 0.5, 0.5, 0.0, 0.0)
    scene.close()
    before = scene.rows("workload_hour", "id, created_at, updated_at, samples")[0]
    scene.read_gpus(range(30, 60), 0.5, 0.5, 0.0, 0.0)
    assert scene.close(1.5) == 1
    after = scene.rows("workload_hour", "id, created_at, updated_at, samples")[0]
    assert after[:2] == before[:2]
    assert after[2] > before[2]
    assert (before[3], after[3]) == (30, 90)


def test_the_end_of_a_pod_that_is_learnt_of_late_corrects_the_hour(scene: Scene) -> None:
    scene.close()

    over = PodSeen("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=HOUR + 40 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], HOUR + 65 * MINUTE)))
    assert scene.close(1.5) == 1
    assert sum(scene.ledger()["w1"]) == 2 * 25
    assert sum(scene.ledger()[""]) == 4 * 60 - 2 * 25


def test_an_end_by_a_clock_that_is_ahead_frees_the_gpus_when_it_is_learnt_of(scene: Scene) -> None:
    over = PodSeen("p1", "p1", "w1", 1, 1, "n1", PodPhase.SUCCEEDED, exit_code=0, ended_at=HOUR + 50 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [over], HOUR + 40 * MINUTE)))
    assert scene.rows("allocation", "DISTINCT to_at") == [(HOUR + 40 * MINUTE,)]


def test_the_start_of_a_pod_that_is_learnt_of_late_corrects_the_hour(scene: Scene) -> None:
    def begin(tx: Transaction) -> None:
        pod = structs.replace(pods.by_uid(tx, ["p1"])["p1"], uid="p2", devices=(2,), started_at=None)
        pods.add(tx, CLUSTER, [pod])
        pods.allocate(tx, CLUSTER, [Allocation("p2", 2, "w1", "n1", "H100", 1000, HOUR)])

    scene.loop_run(scene.store.write(begin))
    scene.close()
    assert scene.ledger()["w1"][2:4] == [2 * 15 + 60, 2 * 30]

    up = PodSeen("p2", "p2", "w1", 1, 1, "n1", PodPhase.RUNNING, started_at=HOUR + 10 * MINUTE)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [up], HOUR + 65 * MINUTE)))
    assert scene.close(1.5) == 1
    assert scene.ledger()["w1"][2:4] == [2 * 15 + 10, 2 * 30 + 50]
    ready = structs.replace(up, ready=True)
    scene.loop_run(scene.store.write(lambda tx: record_pods(tx, CLUSTER, [ready], HOUR + 70 * MINUTE)))
    assert scene.close(1.5) == 0


def test_a_gpu_that_is_replaced_by_another_model_counts_as_what_it_was(scene: Scene) -> None:
    other = structs.replace(NODES[0].devices[3], model="MI300X", memory_bytes=192 << 30)
    replaced = structs.replace(NODES[0], devices=(*NODES[0].devices[:3], other))
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [replaced], HOUR + 2 * HOUR_MS)))
    assert scene.close(4) == 4
    free = scene.rows("ledger", "hour_at, model, free", "WHERE payer = '' ORDER BY hour_at, model")
    hours = [(HOUR + n * HOUR_MS, 4 - (2 if n else 1.5) - (n >= 2)) for n in range(4)]
    assert [row for row in free if row[1] == "H100"] == [(at, "H100", gpus * GPU_HOUR) for at, gpus in hours]
    assert [row for row in free if row[1] == "MI300X"] == [(at, "MI300X", GPU_HOUR) for at, _ in hours[2:]]


def test_a_gpu_that_is_replaced_within_an_hour_counts_as_each_for_its_time(scene: Scene) -> None:
    others = [structs.replace(device, model="MI300X", memory_bytes=160 << 30) for device in NODES[0].devices]
    replaced = structs.replace(NODES[0], devices=(others[0], *NODES[0].devices[1:3], others[3]))
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [replaced], HOUR + 45 * MINUTE)))
    scene.read_gpus(range(60), 0.5, 0.7, 0.0, 0.0)
    scene.close()
    accounts = "free, starting, unmeasured, busy, idle"
    told = scene.rows("ledger", f"payer, model, {accounts}", "ORDER BY payer, model")
    assert [(*row[:2], *(amount * 60 / GPU_HOUR for amount in row[2:])) for row in told] == [
        ("", "H100", 2 * 15 + 45 + 60, 0, 0, 0, 0),
        ("", "MI300X", 15, 0, 0, 0, 0),
        ("w1", "H100", 0, 2 * 15, 0, 15 + 30, 0),
        ("w1", "MI300X", 0, 0, 0, 15, 0),
    ]
    assert scene.rows("cluster_hour", "gpus, capacity, samples") == [(4, 4 * GPU_HOUR, 90)]
    names = "allocated, requested_milli, samples, highest, replicas_milli, replicas_lowest, memory_size"
    size = round((80 * 75 + 160 * 15) / 90 * (1 << 30))
    [row] = scene.rows("workload_hour", names)
    assert row[:-1] == (90 * GPU_HOUR // 60, 2000, 90, 7000, 1000, 1)
    assert abs(row[-1] - size) < 1 << 20


def test_a_faulty_gpu_costs_nobody_busy_or_idle_time(scene: Scene) -> None:
    bad = structs.replace(
        NODES[0], devices=(structs.replace(NODES[0].devices[0], fault="XID 79"), *NODES[0].devices[1:])
    )
    scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [bad], HOUR + 50 * MINUTE)))
    scene.read_gpus(range(60), 0.5, 0.5, 0.0, 0.0)
    scene.close()
    assert scene.ledger()["w1"] == [10, 0, 30, 0, 50, 0]
    assert sum(map(sum, scene.ledger().values())) == 240


class TestSnapshots:
    def take(self, scene: Scene, minute: int) -> None:
        scene.clock.at = HOUR + minute * MINUTE + 700
        scene.loop_run(Snapshots(scene.store, CLUSTER, scene.clock, 300).take())

    def test_a_slot_is_kept_once_and_those_that_nobody_saw_are_kept_as_missed(self, scene: Scene) -> None:
        for minute in (20, 22, 40):
            self.take(scene, minute)
        kept = scene.rows("snapshot", "at, missed", "ORDER BY at")
        assert kept == [
            (HOUR + minute * MINUTE, missed) for minute, missed in ((20, 0), (25, 1), (30, 1), (35, 1), (40, 0))
        ]

    def test_a_slot_that_was_taken_for_missed_by_a_clock_that_was_ahead_is_kept_when_it_comes(
        self, scene: Scene
    ) -> None:
        for minute in (20, 40, 25, 30, 30):
            self.take(scene, minute)
        kept = scene.rows("snapshot", "at, missed, gpus, allocated_milli", "ORDER BY at")
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
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scene.clock.at = HOUR + 12 * MINUTE
        wakes = iter([3 * MINUTE - 100, 100])

        async def wake(seconds: float) -> None:
            if (passed := next(wakes, None)) is None:
                raise asyncio.CancelledError
            scene.clock.at += passed

        monkeypatch.setattr(asyncio, "sleep", wake)
        with contextlib.suppress(asyncio.CancelledError):
            scene.loop_run(Snapshots(scene.store, CLUSTER, scene.clock, 300).run())
        assert scene.rows("snapshot", "at") == [(HOUR + 15 * MINUTE,)]

    def test_it_says_who_held_what(self, scene: Scene) -> None:
        self.take(scene, 20)
        found = scene.loop_run(scene.store.read(lambda tx: snapshots.latest(tx, CLUSTER)))
        assert found is not None
        assert (found.gpus, found.allocated_milli) == (4, 2000)
        assert found.workloads == [SnapshotWorkload("w1", "train", "ml", "Job", 2000, None, {"cost": "c1"})]
