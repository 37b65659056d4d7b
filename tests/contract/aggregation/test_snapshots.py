"""What is ruled of snapshots: whole GPUs, details, ranges, and none at all."""

import pytest
from tests.contract.aggregation.harness import BASE, UsageHarness, held

from stoker.domain.clock import format_rfc3339
from stoker.services.usage import hours

MINUTE = 60_000


def test_where_there_is_none_it_is_not_found(any_harness: UsageHarness) -> None:
    answer = any_harness.get(f"{BASE}/snapshots/latest")
    assert answer.status_code == 404
    body = answer.json()
    assert (body["code"], body["message"]) == (404, 'There is no snapshot of cluster "local" yet.')
    assert any_harness.data("/snapshots") == []


def test_gpus_are_whole_and_use_is_weighed_by_them(any_harness: UsageHarness) -> None:
    any_harness.photograph(
        held("a", 3, 0.9, annotations={"cost": "c1", "project": "p1"}),
        held("b", 0.5, 0.2, annotations={"cost": "c1"}),
        held("c", 2, None, namespace="web", annotations={"cost": "c2"}),
    )
    found = any_harness.data("/snapshots/latest")
    assert (found["total_gpu_capacity"], found["allocated_gpu_count"]) == (8, 6)
    details = found["allocation_details"]
    ml = details["namespaces"]["ml"]
    assert (ml["allocated_gpu"], ml["utilization"], ml["workload_count"]) == (4, 80.0, 2)
    assert [(each["uid"], each["allocated_gpu"], each["utilization"]) for each in ml["workloads"]] == [
        ("a", 3, 90.0),
        ("b", 1, 20.0),
    ]
    assert details["namespaces"]["web"]["utilization"] == 0.0
    assert details["annotations"] == {
        "cost": {
            "c1": {"allocated_gpu": 4, "utilization": 80.0, "workload_count": 2},
            "c2": {"allocated_gpu": 2, "utilization": 0.0, "workload_count": 1},
        },
        "project": {"p1": {"allocated_gpu": 3, "utilization": 90.0, "workload_count": 1}},
    }


def test_an_idle_cluster_has_details_with_nothing_in_them(any_harness: UsageHarness) -> None:
    any_harness.photograph()
    assert any_harness.data("/snapshots/latest")["allocation_details"] == {"namespaces": {}, "annotations": {}}


def test_the_list_has_details_only_when_they_are_asked_for(any_harness: UsageHarness) -> None:
    any_harness.photograph(held("a", 1))
    assert [row["allocation_details"] for row in any_harness.data("/snapshots")] == [{}]
    [row] = any_harness.data("/snapshots", details="true")
    assert row["allocation_details"] == any_harness.data("/snapshots/latest")["allocation_details"]
    assert any_harness.refusal("/snapshots", details="perhaps").startswith("details: ")


def test_it_is_the_last_24_hours_oldest_first_unless_asked(any_harness: UsageHarness) -> None:
    now = any_harness.clock.now()
    for minutes in (0, 5, 24 * 60, 24 * 60 + 5):
        any_harness.photograph(slot=now - minutes * MINUTE)

    def times(**query: str) -> list[int]:
        rows = any_harness.data("/snapshots", **query)
        moments = {format_rfc3339(now - each * MINUTE)[:19] + "Z": each for each in (0, 5, 24 * 60, 24 * 60 + 5)}
        return [moments[row["snapshot_time"]] for row in rows]

    assert times() == [24 * 60, 5, 0]
    assert times(end_time=format_rfc3339(now - 5 * MINUTE)) == [24 * 60 + 5, 24 * 60, 5]
    assert times(start_time=format_rfc3339(now - 5 * MINUTE)) == [5, 0]
    assert times(start_time=format_rfc3339(0), end_time=format_rfc3339(now)) == [24 * 60 + 5, 24 * 60, 5, 0]


@pytest.mark.parametrize("details", ["true", "false"])
def test_many_are_written_while_they_are_read(
    any_harness: UsageHarness, details: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = any_harness.clock.now()
    for minutes in range(0, 35, 5):
        any_harness.photograph(held("a", 1), slot=now - minutes * MINUTE)
    path = f"{BASE}/snapshots?details={details}"
    monkeypatch.setattr(hours, "DETAILED_SNAPSHOTS_BATCH_SIZE", 100)
    at_once = any_harness.get(path).content
    monkeypatch.setattr(hours, "DETAILED_SNAPSHOTS_BATCH_SIZE", 2)
    monkeypatch.setattr(hours, "HOURS_BATCH_SIZE", 2)
    assert any_harness.get(path).content == at_once


def test_what_is_held_now_is_in_the_next_one(any_harness: UsageHarness) -> None:
    any_harness.add_staff()
    any_harness.appear()
    ref = any_harness.submit(gpu="2", annotations={"cost-center": "cc-001"})
    any_harness.start(ref, {"node-001": (0, 1)})
    any_harness.take_snapshot()
    found = any_harness.data("/snapshots/latest")
    assert (found["total_gpu_capacity"], found["allocated_gpu_count"]) == (8, 2)
    [work] = found["allocation_details"]["namespaces"]["vision"]["workloads"]
    assert (work["uid"], work["kind"], work["allocated_gpu"]) == (any_harness.inside(ref).uid, "PyTorchJob", 2)
    assert list(found["allocation_details"]["annotations"]) == ["cost-center"]
