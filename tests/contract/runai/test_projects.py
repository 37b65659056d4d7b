"""Projects, departments, clusters, node pools, nodes and the properties of workloads, as Run:ai's clients read them."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.contract.management.harness import QueueHarness
from tests.contract.runai.submissions import place, submit

from stoker.domain.workload.spec import Kind

ORG = "/api/v1/org-unit"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueHarness]:
    with QueueHarness(tmp_path_factory.mktemp("organisation") / "data") as opened:
        opened.add_staff()
        opened.add_quota("vision", "4")
        yield opened


def _get(harness: QueueHarness, path: str, as_: str = "admin") -> Any:
    answer = harness.get(path, as_=as_)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _names(harness: QueueHarness, query: str = "", as_: str = "admin") -> list[str]:
    return [each["name"] for each in _get(harness, f"{ORG}/projects?{query}", as_)["projects"]]


def test_a_project_is_a_workspace_with_its_quota_and_what_waits(harness: QueueHarness) -> None:
    submit(harness)
    project_id = place(harness)["projectId"]
    shown = _get(harness, f"{ORG}/projects/{project_id}", "member")
    assert (shown["id"], shown["name"], shown["parent"]["name"]) == (project_id, "vision", "default")
    assert shown["totalResources"]["gpuQuota"] == 4
    [pool] = shown["current"]["resources"]
    assert pool["gpu"] == {"quota": 4, "allocated": 0}
    assert pool["numberOfPendingWorkloads"] == 1
    assert shown["metadata"]["projectId"] == int(project_id)


def test_everyone_sees_the_projects_that_are_theirs(harness: QueueHarness) -> None:
    assert _names(harness) == ["audio", "default", "vision"]
    assert _names(harness, as_="member") == ["vision"]
    assert _names(harness, as_="nobody") == []
    assert harness.get(f"{ORG}/projects/{place(harness)['projectId']}", as_="outsider").status_code == 404
    assert harness.get(f"{ORG}/projects").status_code == 401


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("filterBy=name==vision", ["vision"]),
        ("filterBy=name!=vision", ["audio", "default"]),
        ("filterBy=name%3D@IO", ["audio", "vision"]),
        ("filterBy=name!@i", ["default"]),
        ("filterBy=name%3D%5Ev", ["vision"]),
        ("filterBy=name%3D%24o", ["audio"]),
        ("filterBy=name>=default,name<=e", ["default"]),
        ("filterBy=totalGpuQuota==4", ["vision"]),
        ("filterBy=createdAt<=2000-01-01T00:00:00Z", []),
        ("search=AUD", ["audio"]),
        ("sortBy=name&sortOrder=desc", ["vision", "default", "audio"]),
        ("limit=1&offset=1", ["default"]),
    ],
)
def test_projects_are_filtered_sorted_and_cut(harness: QueueHarness, query: str, names: list[str]) -> None:
    assert _names(harness, query) == names


@pytest.mark.parametrize(
    "query",
    ["filterBy=colour==red", "filterBy=name", "filterBy=createdAt%3D@x", "sortBy=colour", "limit=501", "limit=0"],
)
def test_a_bad_question_is_refused_by_name(harness: QueueHarness, query: str) -> None:
    answer = harness.get(f"{ORG}/projects?{query}", as_="admin")
    assert (answer.status_code, answer.json()["code"]) == (400, 400)
    assert answer.json()["message"].startswith(f"{query.partition('=')[0]}: ")


def test_pages_of_projects_follow_each_other(harness: QueueHarness) -> None:
    seen, offset = [], 0
    while offset is not None:
        page = _get(harness, f"{ORG}/projects?limit=2&offset={offset}")
        seen += [each["name"] for each in page["projects"]]
        offset = page["next"]
    assert seen == _names(harness)
    assert _get(harness, f"{ORG}/projects/count") == {"count": 3}


def test_a_department_has_the_projects_that_the_caller_sees(harness: QueueHarness) -> None:
    [shown] = _get(harness, f"{ORG}/departments", "member")["departments"]
    assert (shown["id"], shown["name"]) == ("1", "default")
    assert [each["name"] for each in shown["children"]] == ["vision"]
    assert _get(harness, f"{ORG}/departments/1", "member") == shown
    assert harness.get(f"{ORG}/departments/9", as_="member").status_code == 404


@pytest.mark.parametrize(
    ("path", "rows", "time"),
    [
        (f"{ORG}/departments", "departments", "createdAt"),
        ("/api/v1/node-pools", "nodepools", "createdAt"),
        ("/api/v1/node-pools", "nodepools", "updatedAt"),
    ],
)
def test_departments_and_node_pools_are_filtered_and_sorted_by_the_times_they_show(
    harness: QueueHarness, path: str, rows: str, time: str
) -> None:
    [shown] = _get(harness, f"{path}?sortBy={time}&sortOrder=desc")[rows]
    assert _get(harness, f"{path}?filterBy={time}=={shown[time]}")[rows] == [shown]
    assert _get(harness, f"{path}?filterBy={time}<=2000-01-01T00:00:00Z")[rows] == []
    assert harness.get(f"{path}?filterBy={time}%3D@2", as_="admin").status_code == 400


def test_a_cluster_that_has_not_reported_waits_to_connect(harness: QueueHarness) -> None:
    [shown] = _get(harness, "/api/v1/clusters")
    assert (shown["name"], shown["status"]["state"]) == ("local", "WaitingToConnect")
    assert _get(harness, f"/api/v1/clusters/{shown['uuid']}") == shown
    [pool] = _get(harness, "/api/v1/node-pools")["nodepools"]
    assert (pool["name"], pool["isDefault"], pool["phase"]) == ("default", True, "Empty")
    assert _get(harness, f"/api/v1/node-pools/{pool['id']}") == pool
    assert _get(harness, "/api/v1/nodes") == {"nodes": [], "next": None}
    assert harness.get("/api/v1/clusters/ghost", as_="admin").status_code == 404
    assert harness.get("/api/v1/clusters/ghost/nodes", as_="admin").status_code == 404


def test_types_categories_and_priorities_point_to_each_other(harness: QueueHarness) -> None:
    types = _get(harness, "/api/v1/workload-types", "nobody")["types"]
    categories = {each["id"]: each["name"] for each in _get(harness, "/api/v1/workload-categories")["categories"]}
    priorities = {each["id"]: each for each in _get(harness, "/api/v1/workload-priorities")["priorities"]}
    assert {each["name"] for each in types} == set(Kind)
    for each in types:
        assert categories[each["categoryId"]] == each["categoryName"]
        assert priorities[each["priorityId"]]["name"] == each["priorityName"]
        assert _get(harness, f"/api/v1/workload-types/{each['id']}") == each
    assert [each["value"] for each in priorities.values()] == [25, 40, 65, 80, 90, 125, 150]
