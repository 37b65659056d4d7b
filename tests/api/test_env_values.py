"""Values of environment variables are for the owner, the workspace's managers and admins; others see the names."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.harness import FAR, MANAGEMENT_PATH, V1, Harness
from tests.api.test_permissions import ACCESS_CASES, FURTHER, AccessCase, _thing

VALUE = "hf_0123456789abcdef"
MASK = "******"
SEES = ("owner", "manager", "admin")
SEES_NOT = ("member", "viewer")
READS = [row for row in (*ACCESS_CASES, *FURTHER) if row.method == "GET"]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("harness") / "data", monitoring_access="open") as opened:
        opened.add_staff()
        opened.add_user("owner")
        opened.put(f"{V1}/workspaces/vision/members/owner", as_="admin", json={"role": "member"})
        yield opened


@pytest.fixture
def secretive(harness: Harness) -> str:
    return harness.add_workload("vision", as_="owner", env={"HF_TOKEN": VALUE, "EMPTY": ""}, service={"port": 8080})


def _env(answer: Any) -> Any:
    """The variables, wherever a family puts them."""
    body = answer.json()
    if "workload" in body:
        [container] = body["workload"]["workloadManifest"]["spec"]["template"]["spec"]["containers"]
        return {each["name"]: each.get("value", "") for each in container["env"]}
    if "spec" in body:
        return {each["name"]: each["value"] for each in body["spec"]["environmentVariables"]}
    return body.get("env") or body.get("environmentVariables")


@pytest.mark.parametrize(
    "path",
    [f"{MANAGEMENT_PATH}/{{}}", "/api/v1/workloads/{}", "/api/v1/workloads/workspaces/{}", "/api/v2/workloads/{}"],
)
def test_who_may_see_the_values_sees_them_and_the_rest_sees_names(harness: Harness, secretive: str, path: str) -> None:
    for caller in SEES:
        assert _env(harness.get(path.format(secretive), as_=caller)) == {"HF_TOKEN": VALUE, "EMPTY": ""}
    for caller in SEES_NOT:
        assert _env(harness.get(path.format(secretive), as_=caller)) == {"HF_TOKEN": MASK, "EMPTY": MASK}


def test_a_list_judges_each_workload_by_itself(harness: Harness, secretive: str) -> None:
    own = harness.add_workload("vision", as_="member", env={"HF_TOKEN": "mine"})
    items = harness.get("/api/v1/workloads?sortBy=createdAt&sortOrder=desc", as_="member").json()["workloads"]
    shown = {item["additionalFields"]["workloadId"]: item["environmentVariables"] for item in items}
    assert shown[own] == {"HF_TOKEN": "mine"}
    assert shown[secretive] == {"HF_TOKEN": MASK, "EMPTY": MASK}


def test_an_owner_who_may_only_look_still_sees_its_own_values(harness: Harness) -> None:
    harness.add_user("demoted")
    harness.put(f"{V1}/workspaces/vision/members/demoted", as_="admin", json={"role": "member"})
    ref = harness.add_workload("vision", as_="demoted", env={"HF_TOKEN": VALUE})
    harness.put(f"{V1}/workspaces/vision/members/demoted", as_="admin", json={"role": "viewer"})
    assert _env(harness.get(f"{MANAGEMENT_PATH}/{ref}", as_="demoted")) == {"HF_TOKEN": VALUE}


@pytest.mark.parametrize("row", READS, ids=lambda row: row.path)
def test_no_answer_of_any_family_holds_a_value_for_whoever_may_not_see_it(
    harness: Harness, secretive: str, row: AccessCase
) -> None:
    made = {"workload": secretive, "stopped": secretive, "workspace": "vision"}
    path = re.sub(r"\{(\w+)\}", lambda found: _thing(harness, found[1], made), row.path)
    for caller in SEES_NOT:
        assert VALUE not in harness.get(path, as_=caller).text
    assert VALUE not in harness.get(path, peer=FAR).text


def test_a_clone_does_not_make_an_owner_of_whoever_may_not_see_the_values(harness: Harness, secretive: str) -> None:
    answer = harness.post(f"{MANAGEMENT_PATH}/clone", as_="member", json={"workloadIds": [secretive]})
    [failed] = answer.json()["failed"]
    assert (answer.status_code, failed["errorCode"]) == (403, "Stoker.00003")
    assert failed["errorMessage"] == (
        "Not allowed: you would see the environment values of the clone, and only the owner, managers of the workspace "
        "and admins may read those. Ask one of them to clone it, or submit a workload with your own values."
    )
    assert harness.post(f"{MANAGEMENT_PATH}/clone", as_="manager", json={"workloadIds": [secretive]}).status_code == 204
    plain = harness.add_workload("vision", as_="owner")
    assert harness.post(f"{MANAGEMENT_PATH}/clone", as_="member", json={"workloadIds": [plain]}).status_code == 204


def test_a_repeated_create_shows_the_values_only_to_the_one_who_sent_them(harness: Harness) -> None:
    headers = {"Idempotency-Key": "values"}
    project = str(harness.get(f"{V1}/workspaces/vision", as_="admin").json()["id"])
    body = {
        "name": "twice",
        "projectId": project,
        "clusterId": harness.get(f"{V1}/clusters/local", as_="admin").json()["id"],
        "spec": {
            "image": "python:3.11",
            "compute": {"cpuCoreRequest": 1, "cpuMemoryRequest": "1Gi"},
            "environmentVariables": [{"name": "HF_TOKEN", "value": VALUE}],
        },
    }
    for _ in range(2):
        answer = harness.post("/api/v1/workloads/workspaces", as_="owner", headers=headers, json=body)
        assert (answer.status_code, _env(answer)) == (202, {"HF_TOKEN": VALUE})
    assert VALUE not in str(harness.audit())


def test_a_hidden_value_that_is_sent_back_does_not_take_the_place_of_the_real_one(
    harness: Harness, secretive: str
) -> None:
    answer = harness.patch(f"{MANAGEMENT_PATH}/{secretive}", as_="owner", json={"env": {"HF_TOKEN": "******"}})
    assert answer.status_code == 400
    assert "replaces a value that you may not read" in answer.json()["errorMessage"]
    assert harness.get(f"{MANAGEMENT_PATH}/{secretive}", as_="owner").json()["env"]["HF_TOKEN"] == VALUE
    assert harness.patch(f"{MANAGEMENT_PATH}/{secretive}", as_="owner", json={"env": {"OTHER": "1"}}).status_code == 204
