"""List and count: what is shown, who sees what, and how filters, search and pages are read."""

import re
from typing import Any

import httpx
import pytest
from tests.contract.runai.harness import WORKLOADS, RunaiHarness

from stoker.domain.workload.events import Dispatched, PodsReady
from stoker.domain.workload.phase import StatusReason
from stoker.store.workloads import rows

REQUIRED = {
    "tenantId", "runningPods", "phaseUpdatedAt", "k8sPhaseUpdatedAt", "updatedAt", "createdAt", "source", "deletedAt",
    "type", "name", "id", "clusterId", "priority", "priorityClassName", "projectName", "projectId", "departmentName",
    "departmentId", "namespace", "phase", "conditions", "k8sPhase", "category",
}  # fmt: skip
QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)\Z")


def test_a_workload_has_every_field_that_a_client_asks_for(harness: RunaiHarness) -> None:
    ref = harness.submit(
        displayName="resnet", gpu="2", replica=2, memory="4Gi", env={"A": "1"}, kind="PyTorchJob", image="python:3.11"
    )
    harness.start(ref, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    [row] = harness.runai()["workloads"]
    assert row.keys() >= REQUIRED
    assert (row["id"], row["name"], row["type"], row["category"]) == (harness.uid(ref), "resnet", "PyTorchJob", "Train")
    assert (row["projectName"], row["departmentName"], row["departmentId"]) == ("vision", "default", "1")
    assert isinstance(row["projectId"], str)
    assert (row["phase"], row["k8sPhase"], row["runningPods"]) == ("Running", "Running", 2)
    assert (row["priority"], row["priorityClassName"], row["preemptible"]) == (80, "medium", False)
    assert row["workloadRequestedResources"]["gpu"]["request"] == 4
    assert row["podsRequestedResources"]["gpu"]["request"] == 2
    assert row["podsRequestedResources"]["cpuMemory"]["request"] == "4Gi"
    assert row["allocatedResources"]["gpu"] == 4
    assert QUANTITY.match(row["allocatedResources"]["cpuMemory"])
    assert (row["distributedFramework"], row["images"]) == ("Pytorch", ["python:3.11"])
    assert row["environmentVariables"] == {"A": "1"}
    assert (row["command"], row["arguments"]) == ("true", "")
    assert (row["deletedAt"], row["completedAt"]) == (None, None)
    assert "childrenIds" not in row
    assert row["conditions"][0] == {
        "type": "Queued",
        "status": "True",
        "message": "submitted by member",
        "reason": "Submitted",
        "lastTransitionTime": row["createdAt"],
    }


def test_the_list_of_a_caller_holds_what_is_in_its_workspaces(any_harness: RunaiHarness) -> None:
    any_harness.submit(displayName="seen")
    any_harness.submit("outsider", displayName="hidden", workspaceId="audio")
    assert any_harness.called(as_="member") == ["seen"]
    assert any_harness.called(as_="outsider") == ["hidden"]
    assert any_harness.called(as_="nobody") == []
    assert any_harness.runai("/count", as_="member") == {"count": 1}
    assert any_harness.runai("/count") == {"count": 2}


def test_a_page_says_where_the_next_one_begins(any_harness: RunaiHarness) -> None:
    names = [any_harness.submit(displayName=f"job-{number}") and f"job-{number}" for number in range(5)]
    first = any_harness.runai(limit=2, sortBy="name")
    assert ([row["name"] for row in first["workloads"]], first["next"]) == (names[:2], 2)
    last = any_harness.runai(limit=2, offset=4, sortBy="name")
    assert ([row["name"] for row in last["workloads"]], last["next"]) == (names[4:], None)
    assert any_harness.runai(limit=5)["next"] is None
    assert any_harness.runai(offset=100) == {"workloads": [], "next": None}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"offset": -1}, "offset"),
        ({"sortBy": "colour"}, "sortBy"),
        ({"sortOrder": "up"}, "sortOrder"),
        ({"deleted": "perhaps"}, "deleted"),
        ({"filterBy": "colour==red"}, "filterBy"),
        ({"filterBy": "name"}, "filterBy"),
        ({"filterBy": "name=="}, "filterBy"),
        ({"filterBy": "name~x"}, "filterBy"),
        ({"filterBy": "createdAt=@2025"}, "filterBy"),
        ({"filterBy": "completedAt=^2025"}, "filterBy"),
        ({"filterBy": "createdAt>=soon"}, "filterBy"),
        ({"filterBy": "priority>=high"}, "filterBy"),
        ({"filterBy": "allocatedGPU==nan"}, "filterBy"),
        ({"filterBy": "phase==running"}, "filterBy"),
        ({"filterBy": "phase==Running,phase==Sleeping"}, "filterBy"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_name(harness: RunaiHarness, query: dict[str, Any], field: str) -> None:
    assert harness.refused(**query).startswith(f"{field}: ")
    if field not in {"limit", "offset", "sortBy", "sortOrder"}:
        assert harness.refused("/count", **query).startswith(f"{field}: ")


def test_a_comma_in_a_value_divides_only_before_another_filter(harness: RunaiHarness) -> None:
    harness.submit(displayName="a")
    assert harness.called("name==a", "phase==Pending") == ["a"]
    assert harness.called("name==a,b", "phase==Pending") == []
    assert harness.called("name!=a,b", "phase==Pending") == ["a"]
    assert harness.called("name==a,phase==Running") == []


def test_filters_may_be_sent_in_several_parameters_and_all_hold(harness: RunaiHarness) -> None:
    harness.submit(displayName="one", kind="Job")
    harness.submit(displayName="two", kind="Job")
    path = f"{WORKLOADS}?filterBy=type%3D%3DJob&filterBy=name%21%3Done"
    found = harness.get(path, as_="admin").json()["workloads"]
    assert [row["name"] for row in found] == ["two"]


def test_the_name_of_an_enum_before_its_word_is_overlooked(harness: RunaiHarness) -> None:
    for name in ("a", "b"):
        harness.submit(displayName=name)
    assert harness.called(sortBy="name", sortOrder="SortOrder.desc") == ["b", "a"]


def test_transitional_phases_are_found_by_their_ending(harness: RunaiHarness) -> None:
    waiting, running = harness.submit(displayName="waits"), harness.submit(displayName="runs")
    harness.go(running, Dispatched, PodsReady)
    assert harness.called("phase=$ing", sortBy="name") == ["runs", "waits"]
    assert harness.called("phase=$NDING") == ["waits"]
    assert harness.inside(waiting).phase == "Pending"


@pytest.mark.parametrize("text", ["RESNET", "vision", "memb", "pytorchj", "thon:3", "defau"])
def test_search_looks_at_names_projects_departments_users_types_and_images(
    any_harness: RunaiHarness, text: str
) -> None:
    any_harness.submit(displayName="resnet-50", kind="PyTorchJob", image="python:3.11")
    assert any_harness.called(search=text) == ["resnet-50"]
    assert any_harness.runai("/count", search=text) == {"count": 1}
    assert any_harness.called(search=f"{text}-not") == []


def test_search_finds_a_part_of_an_id_and_takes_wildcards_as_they_are(any_harness: RunaiHarness) -> None:
    uid = any_harness.uid(any_harness.submit(displayName="resnet"))
    assert any_harness.called(search=uid[9:20].upper()) == ["resnet"]
    assert any_harness.called(search="%") == []
    assert any_harness.called(search="r_snet") == []


def test_a_deleted_workload_is_shown_while_its_pods_go_and_then_only_on_demand(any_harness: RunaiHarness) -> None:
    kept, gone = any_harness.submit(displayName="kept"), any_harness.submit(displayName="gone")
    leaving = any_harness.submit(displayName="leaving")
    any_harness.start(leaving, {"node-001": [0]})
    for ref in (gone, leaving):
        assert any_harness.delete(f"/api/custom/workloads/{ref}", as_="member").status_code == 204
    assert any_harness.called(sortBy="name") == ["kept", "leaving"]
    assert any_harness.called("phase==Deleting") == ["leaving"]
    assert any_harness.called("allocatedGPU>=1") == ["leaving"]
    assert any_harness.runai("/count") == {"count": 2}
    assert any_harness.called(deleted=True) == ["gone"]
    assert any_harness.runai("/count", deleted=True) == {"count": 1}
    assert any_harness.rows(deleted=True)[0]["deletedAt"] is not None
    assert any_harness.runai(f"/{any_harness.uid(gone)}")["name"] == "gone"
    assert any_harness.inside(kept).deleted_at is None


def test_static_paths_win_and_an_unknown_id_is_not_found(harness: RunaiHarness) -> None:
    assert harness.runai("/count") == {"count": 0}
    answer = harness.get(f"{WORKLOADS}/497f6eca-6276-4993-bfeb-53cbbbba6f08", as_="admin")
    assert (answer.status_code, answer.json()["code"]) == (404, 404)
    hidden = harness.uid(harness.submit())
    assert harness.get(f"{WORKLOADS}/{hidden}", as_="outsider").status_code == 404


def test_credentials_are_always_needed(harness: RunaiHarness) -> None:
    for path in ("", "/count", "/497f6eca-6276-4993-bfeb-53cbbbba6f08"):
        answer = harness.get(f"{WORKLOADS}{path}")
        assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_a_waiting_workload_says_why_for_each_node_pool(harness: RunaiHarness) -> None:
    harness.add_quota("vision", "2")
    first = harness.submit(gpu="2")
    harness.start(first, {"node-001": [0, 1]})
    second = harness.uid(harness.submit(gpu="2"))
    shown = harness.runai(f"/{second}")
    [message] = shown["pendingSchedulingMessages"]
    assert message["nodePool"] == "default"
    assert (message["phaseReason"], message["orgType"]) == ("NonPreemptibleOverQuota", "PROJECT")
    assert "quota of 2 GPUs" in message["userMessage"]
    assert shown["phaseReason"] == "NonPreemptibleOverQuota"
    assert harness.runai(f"/{harness.uid(first)}")["pendingSchedulingMessages"] is None
    why = {second: StatusReason("over_quota", message["userMessage"])}
    harness.run(harness.installation.store.write(lambda tx: rows.set_pending_reasons(tx, why)))
    listed = {row["id"]: row["phaseReason"] for row in harness.rows()}
    assert listed == {second: "NonPreemptibleOverQuota", harness.uid(first): None}


def test_times_in_filters_may_have_any_zone_and_any_fraction(harness: RunaiHarness) -> None:
    ref = harness.submit(displayName="job")
    [row] = harness.rows()
    at = row["createdAt"]
    assert harness.called(f"createdAt=={at}") == ["job"]
    assert harness.called(f"createdAt=={at.removesuffix('Z')}") == ["job"]
    assert harness.called(f"createdAt=={at.removesuffix('Z')}000000+00:00") == ["job"]
    raw = f"{WORKLOADS}?filterBy=createdAt=={at.removesuffix('Z')}+00:00"
    assert len(harness.get(raw, as_="admin").json()["workloads"]) == 1
    assert harness.called("createdAt>=2999-01-01") == []
    assert harness.inside(ref).name == "job"


def test_pending_and_running_seconds_go_on_with_the_clock(any_harness: RunaiHarness) -> None:
    ref = any_harness.submit()
    any_harness.clock.advance(seconds=61)
    assert any_harness.rows()[0]["totalPendingTimeSeconds"] == 61
    any_harness.go(ref, Dispatched, PodsReady)
    any_harness.clock.advance(seconds=10)
    [row] = any_harness.rows("totalRunningTimeSeconds>=10", "totalPendingTimeSeconds<=61")
    assert (row["totalPendingTimeSeconds"], row["totalRunningTimeSeconds"]) == (61, 10)
    assert any_harness.rows("totalRunningTimeSeconds>=11") == []


def test_queries_as_clients_encode_them(harness: RunaiHarness) -> None:
    harness.submit(displayName="x-1", kind="Job")
    encoded = httpx.QueryParams({"filterBy": "name!=x,createdAt>=2020-01-01T00:00:00+00:00"})
    found = harness.get(f"{WORKLOADS}?{encoded}", as_="admin").json()["workloads"]
    assert [row["name"] for row in found] == ["x-1"]
