"""An hour is closed from the state of that hour: its samples and the one before it, its quotas and requests."""

import numpy as np
import pytest
from msgspec import structs
from tests.conftest import LoopRun
from tests.integration.controller.usage.test_rollup import CLUSTER, HOUR, MINUTE, NODES, RollupHarness

from stoker.controller.reconcile.observe import record_nodes
from stoker.domain.access.identity import Department, QueuePolicy, Quota, Workspace
from stoker.domain.cluster.resources import Resources
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.usage.ledger import GPU_HOUR, HOUR_MS
from stoker.domain.workload.events import SpecChanged
from stoker.domain.workload.lifecycle import transition
from stoker.store.db.base import Store, Transaction
from stoker.store.identity import departments, workspaces
from stoker.store.telemetry import gpu_samples
from stoker.store.workloads import rows, transitions
from stoker.telemetry.tsdb.codec import encode_tick
from stoker.telemetry.tsdb.compactor import Compactor
from stoker.telemetry.tsdb.device_index import build_device_index, encode


@pytest.fixture
def scene(store: Store, loop_run: LoopRun) -> RollupHarness:
    return RollupHarness(store, loop_run)


def ledger(scene: RollupHarness, hour: int) -> list[float]:
    """GPU-minutes of the job that are starting, unmeasured, busy and idle in an hour, counted from the first."""
    accounts = "starting, unmeasured, busy, idle"
    (row,) = scene.rows("ledger", accounts, f"WHERE workload_uid = 'w1' AND hour_at = {HOUR + hour * HOUR_MS}")
    return [amount * 60 / GPU_HOUR for amount in row]


class TestReadingsBeforeTheHour:
    def read(self, scene: RollupHarness, *minutes: int) -> None:
        for minute in minutes:
            scene.read_gpus(range(minute, minute + 1), 0.5, 0.5, 0.0, 0.0)

    def test_ticks_missed_across_the_full_hour_are_unmeasured_once(self, scene: RollupHarness) -> None:
        self.read(scene, *range(59), *range(62, 120))  # none at minutes 59, 60 and 61
        assert scene.close(2.0) == 2
        assert ledger(scene, 0) == [2 * 15, 0, 2 * 30, 0], "the reading of minute 58 stands for two minutes"
        assert ledger(scene, 1) == [0, 2 * 2, 2 * 58, 0]

    def test_the_last_reading_of_an_hour_stands_for_the_beginning_of_the_next(self, scene: RollupHarness) -> None:
        self.read(scene, *range(60), *range(62, 120))  # none at minutes 60 and 61
        assert scene.close(2.0) == 2
        assert ledger(scene, 1) == [0, 1 * 2, 2 * 59, 0], "as within an hour: two minutes, and nothing more"

    def test_so_it_does_when_its_hour_is_packed_already(self, scene: RollupHarness) -> None:
        self.read(scene, *range(60), *range(62, 120))
        scene.clock.at = HOUR + HOUR_MS + 2 * MINUTE
        assert scene.loop_run(Compactor(scene.store, CLUSTER, scene.clock).compact()) == 1
        assert scene.close(2.0) == 2
        assert ledger(scene, 1) == [0, 1 * 2, 2 * 59, 0]

    def test_it_is_no_sample_of_the_next_hour(self, scene: RollupHarness) -> None:
        self.read(scene, *range(60), *range(62, 120))
        scene.close(2.0)
        assert scene.rows("workload_hour", "samples", "ORDER BY hour_at") == [(2 * 45,), (2 * 58,)]

    def test_a_reading_before_the_hour_that_comes_late_closes_that_hour_again(self, scene: RollupHarness) -> None:
        self.read(scene, *range(57), *range(62, 120))
        scene.close(2.0)
        assert ledger(scene, 1) == [0, 2 * 2, 2 * 58, 0]
        self.read(scene, 58, 59)
        assert scene.close(2.5) == 2
        assert ledger(scene, 1) == [0, 1 * 2, 2 * 59, 0]


class TestMemorySize:
    def test_it_is_that_of_the_readings_where_the_engine_knows_none(self, scene: RollupHarness) -> None:
        unknown = structs.replace(
            NODES[0], devices=tuple(structs.replace(device, memory_bytes=0) for device in NODES[0].devices)
        )
        scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [unknown], HOUR)))
        scene.read_gpus(range(60), 0.5, 0.5, 0.0, 0.0)
        scene.close()
        assert scene.rows("workload_hour", "memory_used, memory_size") == [(40 << 30, 80 << 30)]

    def test_of_several_the_last_that_was_read_counts(self, scene: RollupHarness) -> None:
        sizes = [
            structs.replace(NODES[0], devices=tuple(structs.replace(d, memory_bytes=size) for d in NODES[0].devices))
            for size in (0, 64 << 30)
        ]
        scene.loop_run(scene.store.write(lambda tx: record_nodes(tx, CLUSTER, [sizes[0]], HOUR)))

        def change(tx: Transaction) -> None:
            for minute, node in ((20, sizes[0]), (40, sizes[1])):
                roster = build_device_index([node])
                number = gpu_samples.get_or_add_device_index(tx, CLUSTER, encode(roster), roster.gpu_count, HOUR)
                values = {GpuMetric.UTILIZATION: np.full(4, 0.5), GpuMetric.MEMORY_USED: np.full(4, float(1 << 30))}
                gpu_samples.add_tick(tx, CLUSTER, HOUR + minute * MINUTE, number, encode_tick(values))

        scene.loop_run(scene.store.write(change))
        scene.close()
        assert scene.rows("workload_hour", "memory_size") == [(64 << 30,)]


class TestQuotasAndRequests:
    def grant(self, scene: RollupHarness, gpus: int | None, minute: int) -> None:
        """The workspace of the job has this quota from then on."""
        quota = Quota(None if gpus is None else gpus * 1000, None, None)

        def change(tx: Transaction) -> None:
            if (found := workspaces.get(tx, 1)) is not None:
                workspaces.update(tx, structs.replace(found, quota=quota, updated_at=HOUR + minute * MINUTE))
                return
            departments.add(tx, Department(1, "default", "", 1, 1, 1))
            workspaces.add(tx, place(quota))

        scene.loop_run(scene.store.write(change))

    def ask_for(self, scene: RollupHarness, gpus: int, minute: int) -> None:
        def change(tx: Transaction) -> None:
            job = rows.by_uid(tx, ["w1"])["w1"]
            spec = structs.replace(job.spec, resources=Resources(gpus * 1000, 1000, 1))
            made = transition(job, SpecChanged(HOUR + minute * MINUTE, "ann", spec))
            assert made is not None
            transitions.apply(tx, job, made)

        scene.loop_run(scene.store.write(change))

    def capacity(self, scene: RollupHarness) -> list[int]:
        return [gpus for (gpus,) in scene.rows("namespace_hour", "gpus", "ORDER BY hour_at")]

    def requested(self, scene: RollupHarness) -> list[int]:
        return [milli for (milli,) in scene.rows("workload_hour", "requested_milli", "ORDER BY hour_at")]

    def test_an_hour_that_is_closed_again_keeps_its_quota(self, scene: RollupHarness) -> None:
        self.grant(scene, 8, 0)
        scene.close()
        self.grant(scene, 3, 70)
        self.grant(scene, None, 130)
        scene.read_gpus(range(60), 0.5, 0.5, 0.0, 0.0)
        assert scene.close(3.0) == 3
        assert self.capacity(scene) == [8, 3, 4], (
            "each as it was at the end of the hour; without a quota, the cluster's"
        )

    def test_it_does_so_after_its_workspace_is_gone(self, scene: RollupHarness) -> None:
        self.grant(scene, 8, 0)
        scene.loop_run(scene.store.write(lambda tx: workspaces.delete(tx, 1, HOUR + 70 * MINUTE)))
        scene.close(2.0)
        assert self.capacity(scene) == [8, 4]

    def test_an_edit_of_anything_else_leaves_the_quota_alone(self, scene: RollupHarness) -> None:
        self.grant(scene, 8, 0)
        self.grant(scene, 8, 20)
        assert scene.rows("quota_history", "until_at") == []

    def test_an_hour_that_is_closed_again_keeps_its_highest_request(self, scene: RollupHarness) -> None:
        scene.close()
        self.ask_for(scene, 6, 70)
        self.ask_for(scene, 3, 130)
        scene.read_gpus(range(60), 0.5, 0.5, 0.0, 0.0)
        assert scene.close(4.0) == 4
        assert self.requested(scene) == [2000, 6000, 6000, 3000]


def place(quota: Quota) -> Workspace:
    return Workspace(
        id=1,
        name="ml",
        description="",
        department_id=1,
        department="default",
        cluster_id=CLUSTER,
        cluster="demo",
        namespace="ml",
        quota=quota,
        queue_policy=QueuePolicy.FIFO,
        preemption=False,
        created_at=HOUR,
        updated_at=HOUR,
        version=1,
    )
