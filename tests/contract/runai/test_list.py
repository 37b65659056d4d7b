"""List and count: what is shown, who sees what, and how filters, search and pages are read."""

import re
from typing import Any

import httpx
import pytest
from tests.contract.runai.lab import WORKLOADS, RunaiLab

from stoker.domain.events import Placed, PodsUp
from stoker.domain.workload import Wait
from stoker.store import workloads

REQUIRED = {
    "tenantId", "runningPods", "phaseUpdatedAt", "k8sPhaseUpdatedAt", "updatedAt", "createdAt", "source", "deletedAt",
    "type", "name", "id", "clusterId", "priority", "priorityClassName", "projectName", "projectId", "departmentName",
    "departmentId", "namespace", "phase", "conditions", "k8sPhase", "category",
}  # fmt: skip
QUANTITY = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)\Z")


def test_a_workload_has_every_field_that_a_client_asks_for(lab: RunaiLab) -> None:
    ref = lab.submit(displayName="resnet", gpu="2", replica=2, memory="4Gi", env={"A": "1"}, kind="PyTorchJob")
    lab.start(ref, {"node-001": [0, 1]}, {"node-002": [0, 1]})
    [row] = lab.runai()["workloads"]
    assert row.keys() >= REQUIRED
    assert (row["id"], row["name"], row["type"], row["category"]) == (lab.uid(ref), "resnet", "PyTorchJob", "Train")
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


def test_the_list_of_a_caller_holds_what_is_in_its_workspaces(any_lab: RunaiLab) -> None:
    any_lab.submit(displayName="seen")
    any_lab.submit("outsider", displayName="hidden", workspaceId="audio")
    assert any_lab.called(as_="member") == ["seen"]
    assert any_lab.called(as_="outsider") == ["hidden"]
    assert any_lab.called(as_="nobody") == []
    assert any_lab.runai("/count", as_="member") == {"count": 1}
    assert any_lab.runai("/count") == {"count": 2}


def test_a_page_says_where_the_next_one_begins(any_lab: RunaiLab) -> None:
    names = [any_lab.submit(displayName=f"job-{number}") and f"job-{number}" for number in range(5)]
    first = any_lab.runai(limit=2, sortBy="name")
    assert ([row["name"] for row in first["workloads"]], first["next"]) == (names[:2], 2)
    last = any_lab.runai(limit=2, offset=4, sortBy="name")
    assert ([row["name"] for row in last["workloads"]], last["next"]) == (names[4:], None)
    assert any_lab.runai(limit=5)["next"] is None
    assert any_lab.runai(offset=100) == {"workloads": [], "next": None}


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
def test_a_bad_parameter_is_refused_by_its_name(lab: RunaiLab, query: dict[str, Any], field: str) -> None:
    assert lab.refused(**query).startswith(f"{field}: ")
    if field not in {"limit", "offset", "sortBy", "sortOrder"}:
        assert lab.refused("/count", **query).startswith(f"{field}: ")


def test_a_comma_in_a_value_divides_only_before_another_filter(lab: RunaiLab) -> None:
    lab.submit(displayName="a")
    assert lab.called("name==a", "phase==Pending") == ["a"]
    assert lab.called("name==a,b", "phase==Pending") == []
    assert lab.called("name!=a,b", "phase==Pending") == ["a"]
    assert lab.called("name==a,phase==Running") == []


def test_filters_may_be_sent_in_several_parameters_and_all_hold(lab: RunaiLab) -> None:
    lab.submit(displayName="one", kind="Job")
    lab.submit(displayName="two", kind="Job")
    path = f"{WORKLOADS}?filterBy=type%3D%3DJob&filterBy=name%21%3Done"
    found = lab.get(path, as_="admin").json()["workloads"]
    assert [row["name"] for row in found] == ["two"]


def test_the_name_of_an_enum_before_its_word_is_overlooked(lab: RunaiLab) -> None:
    for name in ("a", "b"):
        lab.submit(displayName=name)
    assert lab.called(sortBy="name", sortOrder="SortOrder.desc") == ["b", "a"]


def test_transitional_phases_are_found_by_their_ending(lab: RunaiLab) -> None:
    waiting, running = lab.submit(displayName="waits"), lab.submit(displayName="runs")
    lab.go(running, Placed, PodsUp)
    assert lab.called("phase=$ing", sortBy="name") == ["runs", "waits"]
    assert lab.called("phase=$NDING") == ["waits"]
    assert lab.inside(waiting).phase == "Pending"


@pytest.mark.parametrize("text", ["RESNET", "vision", "memb", "pytorchj", "thon:3", "defau"])
def test_search_looks_at_names_projects_departments_users_types_and_images(any_lab: RunaiLab, text: str) -> None:
    any_lab.submit(displayName="resnet-50", kind="PyTorchJob")
    assert any_lab.called(search=text) == ["resnet-50"]
    assert any_lab.runai("/count", search=text) == {"count": 1}
    assert any_lab.called(search=f"{text}-not") == []


def test_search_finds_a_part_of_an_id_and_takes_wildcards_as_they_are(any_lab: RunaiLab) -> None:
    uid = any_lab.uid(any_lab.submit(displayName="resnet"))
    assert any_lab.called(search=uid[9:20].upper()) == ["resnet"]
    assert any_lab.called(search="%") == []
    assert any_lab.called(search="r_snet") == []


def test_a_deleted_workload_is_shown_while_its_pods_go_and_then_only_on_demand(any_lab: RunaiLab) -> None:
    kept, gone = any_lab.submit(displayName="kept"), any_lab.submit(displayName="gone")
    leaving = any_lab.submit(displayName="leaving")
    any_lab.start(leaving, {"node-001": [0]})
    for ref in (gone, leaving):
        assert any_lab.delete(f"/api/custom/workloads/{ref}", as_="member").status_code == 204
    assert any_lab.called(sortBy="name") == ["kept", "leaving"]
    assert any_lab.called("phase==Deleting") == ["leaving"]
    assert any_lab.called("allocatedGPU>=1") == ["leaving"]
    assert any_lab.runai("/count") == {"count": 2}
    assert any_lab.called(deleted=True) == ["gone"]
    assert any_lab.runai("/count", deleted=True) == {"count": 1}
    assert any_lab.rows(deleted=True)[0]["deletedAt"] is not None
    assert any_lab.runai(f"/{any_lab.uid(gone)}")["name"] == "gone"
    assert any_lab.inside(kept).deleted_at is None


def test_static_paths_win_and_an_unknown_id_is_not_found(lab: RunaiLab) -> None:
    assert lab.runai("/count") == {"count": 0}
    answer = lab.get(f"{WORKLOADS}/497f6eca-6276-4993-bfeb-53cbbbba6f08", as_="admin")
    assert (answer.status_code, answer.json()["code"]) == (404, 404)
    hidden = lab.uid(lab.submit())
    assert lab.get(f"{WORKLOADS}/{hidden}", as_="outsider").status_code == 404


def test_credentials_are_always_needed(lab: RunaiLab) -> None:
    for path in ("", "/count", "/497f6eca-6276-4993-bfeb-53cbbbba6f08"):
        answer = lab.get(f"{WORKLOADS}{path}")
        assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_a_waiting_workload_says_why_for_each_node_pool(lab: RunaiLab) -> None:
    lab.add_quota("vision", "2")
    first = lab.submit(gpu="2")
    lab.start(first, {"node-001": [0, 1]})
    second = lab.uid(lab.submit(gpu="2"))
    shown = lab.runai(f"/{second}")
    [message] = shown["pendingSchedulingMessages"]
    assert message["nodePool"] == "default"
    assert (message["phaseReason"], message["orgType"]) == ("NonPreemptibleOverQuota", "PROJECT")
    assert "quota of 2 GPUs" in message["userMessage"]
    assert shown["phaseReason"] == "NonPreemptibleOverQuota"
    assert lab.runai(f"/{lab.uid(first)}")["pendingSchedulingMessages"] is None
    why = {second: Wait("over_quota", message["userMessage"])}
    lab.run(lab.installation.store.write(lambda tx: workloads.set_waiting(tx, why)))
    listed = {row["id"]: row["phaseReason"] for row in lab.rows()}
    assert listed == {second: "NonPreemptibleOverQuota", lab.uid(first): None}


def test_times_in_filters_may_have_any_zone_and_any_fraction(lab: RunaiLab) -> None:
    ref = lab.submit(displayName="job")
    [row] = lab.rows()
    at = row["createdAt"]
    assert lab.called(f"createdAt=={at}") == ["job"]
    assert lab.called(f"createdAt=={at.removesuffix('Z')}") == ["job"]
    assert lab.called(f"createdAt=={at.removesuffix('Z')}000000+00:00") == ["job"]
    raw = f"{WORKLOADS}?filterBy=createdAt=={at.removesuffix('Z')}+00:00"
    assert len(lab.get(raw, as_="admin").json()["workloads"]) == 1
    assert lab.called("createdAt>=2999-01-01") == []
    assert lab.inside(ref).name == "job"


def test_pending_and_running_seconds_go_on_with_the_clock(any_lab: RunaiLab) -> None:
    ref = any_lab.submit()
    any_lab.clock.advance(seconds=61)
    assert any_lab.rows()[0]["totalPendingTimeSeconds"] == 61
    any_lab.go(ref, Placed, PodsUp)
    any_lab.clock.advance(seconds=10)
    [row] = any_lab.rows("totalRunningTimeSeconds>=10", "totalPendingTimeSeconds<=61")
    assert (row["totalPendingTimeSeconds"], row["totalRunningTimeSeconds"]) == (61, 10)
    assert any_lab.rows("totalRunningTimeSeconds>=11") == []


def test_queries_as_clients_encode_them(lab: RunaiLab) -> None:
    lab.submit(displayName="x-1", kind="Job")
    encoded = httpx.QueryParams({"filterBy": "name!=x,createdAt>=2020-01-01T00:00:00+00:00"})
    found = lab.get(f"{WORKLOADS}?{encoded}", as_="admin").json()["workloads"]
    assert [row["name"] for row in found] == ["x-1"]
