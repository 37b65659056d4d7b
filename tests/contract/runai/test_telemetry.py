"""Telemetry: workloads counted, GPUs added up, waits sorted by length; json, and csv on demand."""

from typing import Any

import pytest
from tests.contract.runai.harness import WORKLOADS, RunaiHarness
from tests.contract.runai.many_workloads import settle


def telemetry(harness: RunaiHarness, kind: str, as_: str = "admin", **query: Any) -> dict[tuple[str, ...], str]:
    """The values by the values of their groups."""
    answer = harness.runai("/telemetry", as_=as_, telemetryType=kind, **query)
    assert answer["type"] == kind
    return {tuple(group["value"] for group in each.get("groups", [])): each["value"] for each in answer["values"]}


def test_workloads_are_counted_by_up_to_two_groups_and_add_up(any_harness: RunaiHarness) -> None:
    settle(any_harness)
    rows = any_harness.rows()
    assert telemetry(any_harness, "WORKLOADS_COUNT") == {(): str(len(rows))}
    for group, field in (("Phase", "phase"), ("Type", "type"), ("Category", "category"), ("ProjectId", "projectId")):
        expected = {(value,): str(sum(row[field] == value for row in rows)) for value in {row[field] for row in rows}}
        assert telemetry(any_harness, "WORKLOADS_COUNT", groupBy=group) == expected
    both = telemetry(any_harness, "WORKLOADS_COUNT", groupBy="DepartmentId,CurrentNodepools")
    assert both.keys() == {("1", "default"), ("1", "fast,spare")}
    assert sum(int(number) for number in both.values()) == len(rows)


def test_gpus_are_added_up_over_what_holds_them(any_harness: RunaiHarness) -> None:
    settle(any_harness)
    held = {row["name"]: row["allocatedResources"]["gpu"] for row in any_harness.rows()}
    total = telemetry(any_harness, "GPU_ALLOCATION")[()]
    assert float(total) == sum(row["allocatedResources"]["gpu"] for row in any_harness.rows()) > 0
    assert held
    by_type = telemetry(any_harness, "GPU_ALLOCATION", groupBy="Type")
    assert sum(float(number) for number in by_type.values()) == float(total)


def test_a_wait_falls_into_one_of_four_lengths(any_harness: RunaiHarness) -> None:
    for seconds in (0, 30, 3600, 90_000):
        any_harness.submit()
        any_harness.clock.advance(seconds=seconds)
    any_harness.submit("outsider", workspaceId="audio")
    found = telemetry(any_harness, "PENDING_TIME_DISTRIBUTION")
    assert found == {("<5m",): "1", ("5m-1h",): "0", ("1h-24h",): "0", (">24h",): "4"}
    assert sum(map(int, found.values())) == 5
    grouped = telemetry(any_harness, "PENDING_TIME_DISTRIBUTION", groupBy="ProjectId")
    assert len(grouped) == 8
    assert sum(map(int, grouped.values())) == 5


def test_a_group_is_named_as_the_document_does(harness: RunaiHarness) -> None:
    harness.submit()
    [value] = harness.runai("/telemetry", telemetryType="WORKLOADS_COUNT", groupBy="DepartmentId")["values"]
    assert value == {"value": "1", "groups": [{"key": "department", "value": "1", "name": "default"}]}


def test_filters_leave_what_they_name_and_callers_see_their_own(any_harness: RunaiHarness) -> None:
    any_harness.start(any_harness.submit(gpu="1"), {"node-001": [0]})
    any_harness.submit("outsider", workspaceId="audio")
    cluster = any_harness.rows()[0]["clusterId"]
    count = "WORKLOADS_COUNT"
    assert telemetry(any_harness, count, clusterId=cluster, nodepoolName="default", departmentId="1") == {(): "2"}
    assert telemetry(any_harness, count, filterByPhases="Running,Failed") == {(): "1"}
    assert telemetry(any_harness, count, nodepoolName="def") == {(): "0"}
    assert telemetry(any_harness, count, departmentId="77") == {(): "0"}
    assert telemetry(any_harness, count, as_="outsider", groupBy="Phase") == {("Pending",): "1"}
    assert telemetry(any_harness, count, as_="nobody") == {(): "0"}
    assert telemetry(any_harness, "GPU_ALLOCATION", as_="outsider") == {(): "0"}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "telemetryType"),
        ({"telemetryType": "ALLOCATION_RATIO"}, "telemetryType"),
        ({"telemetryType": "WORKLOADS_COUNT", "groupBy": "Colour"}, "groupBy"),
        ({"telemetryType": "WORKLOADS_COUNT", "groupBy": "Type,Phase,Category"}, "groupBy"),
        ({"telemetryType": "PENDING_TIME_DISTRIBUTION", "groupBy": "Type,Phase"}, "groupBy"),
        ({"telemetryType": "WORKLOADS_COUNT", "filterByPhases": "Succeeded"}, "filterByPhases"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_name(harness: RunaiHarness, query: dict[str, Any], field: str) -> None:
    assert harness.refused("/telemetry", **query).startswith(f"{field}: ")


def test_an_unknown_cluster_is_not_found_and_an_enum_may_be_dotted(harness: RunaiHarness) -> None:
    path = f"{WORKLOADS}/telemetry?telemetryType=WORKLOADS_COUNT&clusterId=497f6eca-6276-4993-bfeb-53cbbbba6f08"
    assert harness.get(path, as_="admin").status_code == 404
    dotted = harness.runai("/telemetry", telemetryType="WorkloadTelemetryType.WORKLOADS_COUNT")
    assert dotted["type"] == "WORKLOADS_COUNT"
    plain = telemetry(harness, "WORKLOADS_COUNT", filterByPhases="Running,Pending", groupBy="Type,Phase")
    assert plain == telemetry(
        harness, "WORKLOADS_COUNT", filterByPhases="Phase.Running,Phase.Pending", groupBy="Grouping.Type,Grouping.Phase"
    )
    assert harness.refused("/telemetry", telemetryType="WORKLOADS_COUNT", groupBy="Type.Grouping").startswith(
        "groupBy: "
    )


def test_a_cluster_is_named_by_name_or_id(harness: RunaiHarness) -> None:
    harness.submit(kind="Job")
    [row, *_] = rows = harness.rows()
    assert {each["clusterId"] for each in rows} == {row["clusterId"]}
    for cluster in ("local", row["clusterId"]):
        assert telemetry(harness, "WORKLOADS_COUNT", cluster=cluster) == {(): str(len(rows))}
        assert harness.runai("/count", cluster=cluster) == {"count": len(rows)}
        assert len(harness.runai(cluster=cluster, limit=500)["workloads"]) == len(rows)
    for path in (
        "?cluster=nowhere",
        "/count?cluster=nowhere",
        "/telemetry?telemetryType=GPU_ALLOCATION&cluster=nowhere",
    ):
        assert harness.get(f"{WORKLOADS}{path}", as_="admin").status_code == 404


def test_csv_is_served_to_those_who_ask_for_nothing_else(harness: RunaiHarness) -> None:
    harness.submit(kind="Job")
    path = f"{WORKLOADS}/telemetry?telemetryType=WORKLOADS_COUNT&groupBy=Type"
    answer = harness.get(path, as_="admin", headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    head, row = answer.text.splitlines()
    assert head == "telemetryType,timestamp,type,value"
    assert row.startswith("WORKLOADS_COUNT,")
    assert row.endswith(",Job,1")
    both = harness.get(path, as_="admin", headers={"Accept": "application/json, text/csv"})
    assert both.headers["content-type"].startswith("application/json")
