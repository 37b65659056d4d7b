"""The numbers of an hour that is closed from what was observed: what they mean, and that they add up."""

from typing import Any

import pytest
from tests.contract.aggregation.harness import MINUTE, UsageHarness

from stoker.domain.clock import format_rfc3339
from stoker.domain.usage.ledger import HOUR_MS
from stoker.domain.workload.events import PodsTerminated, ResumeRequested, StopRequested


class ValuesHarness:
    """One node of 8 GPUs; its first hour is the one that is looked at."""

    def __init__(self, harness: UsageHarness) -> None:
        self.harness = harness
        harness.add_staff()
        self.hour = harness.to_the_hour()
        harness.appear()

    def rows(self, path: str, **query: Any) -> list[dict[str, Any]]:
        between = dict.fromkeys(("start_time", "end_time"), format_rfc3339(self.hour))
        found = self.harness.data(path, **between, **query)
        return found if isinstance(found, list) else found["data"]

    def row(self, path: str, **query: Any) -> dict[str, Any]:
        [found] = self.rows(path, **query)
        return found

    def train(self, gpus: range, minutes: int = 0, who: str = "member", **fields: Any) -> str:
        """Start a job so many minutes from now."""
        ref = self.harness.submit(who, gpu=str(len(gpus)), **fields)
        self.harness.clock.advance(seconds=minutes * MINUTE)
        self.harness.start(ref, {"node-001": gpus})
        return ref


@pytest.fixture
def scene(any_harness: UsageHarness) -> ValuesHarness:
    return ValuesHarness(any_harness)


def test_every_number_of_a_workload(scene: ValuesHarness) -> None:
    labels = {"customerLabels": {"team": "research"}, "annotations": {"cost-center": "cc-001"}}
    ref = scene.train(range(2), minutes=15, **labels)
    scene.harness.read_gpus([0.5, 0.7, *[0.0] * 6], range(60), scene.hour)
    assert scene.harness.close_hours() == 1
    row = scene.row("/workloads/hourly-stats")
    work = scene.harness.inside(ref)
    closed = scene.harness.clock.now()
    assert row.pop("id") == 1
    assert row == {
        "cluster_name": "local",
        "namespace": "vision",
        "workload_name": work.name,
        "workload_type": "PyTorchJob",
        "stat_hour": format_rfc3339(scene.hour)[:19] + "Z",
        "allocated_gpu_count": 1.5,
        "requested_gpu_count": 2.0,
        "avg_utilization": 60.0,
        "max_utilization": 70.0,
        "min_utilization": 50.0,
        "p50_utilization": 60.0,
        "p95_utilization": 70.0,
        "avg_gpu_memory_used": 25.0,
        "max_gpu_memory_used": 25.0,
        "avg_gpu_memory_total": 100.0,
        "avg_replica_count": 1.0,
        "max_replica_count": 1,
        "min_replica_count": 1,
        "workload_status": "Running",
        "sample_count": 90,
        "owner_uid": work.uid,
        "owner_name": ref,
        "labels": {"team": "research"},
        "annotations": {"cost-center": "cc-001"},
        "created_at": format_rfc3339(closed)[:19] + "Z",
        "updated_at": format_rfc3339(closed)[:19] + "Z",
    }


def test_the_levels_add_up(scene: ValuesHarness) -> None:
    first = scene.train(range(3), minutes=7, customerLabels={"team": "a"})
    scene.train(range(3, 5), minutes=11, who="outsider", workspaceId="audio", customerLabels={"team": "a"})
    scene.train(range(5, 8), minutes=13, customerLabels={"team": "b"})
    scene.harness.end(first, seconds=100)
    scene.harness.read_gpus([0.1 * number for number in range(8)], range(60), scene.hour)
    scene.harness.close_hours()
    workloads = scene.rows("/workloads/hourly-stats")
    whole = scene.row("/cluster/hourly-stats")
    total = sum(row["allocated_gpu_count"] for row in workloads)
    assert total == pytest.approx(sum(row["allocated_gpu_count"] for row in scene.rows("/namespaces/hourly-stats")))
    assert total == pytest.approx(whole["allocated_gpu_count"], abs=1e-5)
    labels = scene.rows("/labels/hourly-stats", dimension_type="label", dimension_key="team")
    assert total == pytest.approx(sum(row["allocated_gpu_count"] for row in labels), abs=1e-5)
    assert whole["sample_count"] == sum(row["sample_count"] for row in workloads)
    assert whole["allocation_rate"] == round(100 * whole["allocated_gpu_count"] / 8, 2)
    assert whole["total_gpu_capacity"] == 8
    counts = {row["namespace"]: row["active_workload_count"] for row in scene.rows("/namespaces/hourly-stats")}
    assert counts == {"audio": 1, "vision": 2}
    assert {row["dimension_value"]: row["active_workload_count"] for row in labels} == {"a": 2, "b": 1}
    assert all(row["allocated_gpu_count"] <= row["requested_gpu_count"] for row in workloads)
    assert {row["owner_name"]: row["workload_status"] for row in workloads}[first] == "Completed"


def test_gpu_counts_have_six_decimals_at_the_most_and_are_exact(scene: ValuesHarness) -> None:
    ref = scene.train(range(1))
    scene.harness.end(ref, seconds=1)
    scene.harness.close_hours()
    assert scene.row("/workloads/hourly-stats")["allocated_gpu_count"] == 0.000278


def test_without_readings_everything_measured_is_0(scene: ValuesHarness) -> None:
    scene.train(range(2))
    scene.harness.close_hours()
    for path in ("/workloads/hourly-stats", "/cluster/hourly-stats", "/namespaces/hourly-stats"):
        row = scene.row(path)
        assert row.get("sample_count", 0) == 0
        assert {value for name, value in row.items() if name.endswith("_utilization")} == {0.0}
        assert row["allocated_gpu_count"] == 2.0


def test_a_name_that_is_used_twice_has_two_rows(scene: ValuesHarness) -> None:
    refs = {scene.train(range(1), displayName="twin"), scene.train(range(1, 2), displayName="twin")}
    scene.harness.close_hours()
    rows = scene.rows("/workloads/hourly-stats", workload_name="twin")
    assert {row["owner_name"] for row in rows} == refs


def test_the_capacity_of_a_namespace_is_its_quota_if_it_has_one(scene: ValuesHarness) -> None:
    scene.train(range(1))
    scene.harness.close_hours()
    assert scene.row("/namespaces/hourly-stats")["total_gpu_capacity"] == 8
    scene.hour += HOUR_MS
    scene.harness.add_quota("vision", "4")
    scene.harness.close_hours()
    assert scene.row("/namespaces/hourly-stats")["total_gpu_capacity"] == 4


def test_late_readings_move_updated_at_and_nothing_else_that_should_stay(scene: ValuesHarness) -> None:
    scene.train(range(1))
    scene.harness.close_hours()
    before = scene.row("/workloads/hourly-stats")
    scene.harness.read_gpus([0.5] * 8, range(30), scene.hour)
    assert scene.harness.close_hours() == 2
    after = scene.row("/workloads/hourly-stats")
    assert (after["id"], after["created_at"]) == (before["id"], before["created_at"])
    assert after["updated_at"] > before["updated_at"]
    assert (before["sample_count"], after["sample_count"]) == (0, 30)


def test_the_status_is_that_of_the_end_of_the_hour_whatever_came_after(scene: ValuesHarness) -> None:
    ref = scene.train(range(1))
    scene.harness.clock.advance(seconds=60)
    scene.harness.release(*scene.harness.pods(ref))
    scene.harness.go(ref, lambda at: StopRequested(at, "member"), PodsTerminated, seconds=60)
    scene.harness.to_the_hour()
    scene.harness.go(ref, lambda at: ResumeRequested(at, "member"), seconds=1)
    scene.harness.start(ref, {"node-001": (0,)})
    scene.harness.end(ref, seconds=60)
    scene.harness.close_hours()
    assert scene.row("/workloads/hourly-stats")["workload_status"] == "Unknown"  # it was stopped
    scene.hour += HOUR_MS
    assert scene.row("/workloads/hourly-stats")["workload_status"] == "Completed"
