"""Who may do what to whose workload, and the body that says no."""

import json
from typing import Any

import pytest
from tests.api.harness import FAR, MANAGEMENT_PATH, V1
from tests.contract.management.harness import QueueHarness, RunningHarness

ENDPOINTS = [
    ("POST", ""),
    ("GET", ""),
    ("GET", "/{ref}"),
    ("PATCH", "/{ref}"),
    ("DELETE", "/{ref}"),
    ("POST", "/{ref}/stop"),
    ("POST", "/delete"),
    ("POST", "/stop"),
    ("POST", "/clone"),
    ("GET", "/{ref}/pods/{ref}-worker-0/logs"),
    ("GET", "/{ref}/pods/{ref}-worker-0/containers"),
    ("GET", "/{ref}/service"),
]
READS = [path for method, path in ENDPOINTS if method == "GET" and path]
ON_ONE = [(method, path) for method, path in ENDPOINTS if path]


def body_of(harness: QueueHarness, path: str, ref: str) -> Any:
    match path:
        case "":
            return harness.body()
        case "/delete" | "/stop" | "/clone":
            return {"workloadIds": [ref]}
        case _:
            return {}


@pytest.fixture(scope="module")
def theirs(works: RunningHarness) -> str:
    """A workload of the manager of vision that has a pod and a service, and ended."""
    return works.finished("manager", run="echo secret", service={"port": 8080})["workloadId"]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_without_a_credential_nothing_is_answered(harness: QueueHarness, method: str, path: str) -> None:
    for peer in ("127.0.0.1", FAR):
        where = f"{MANAGEMENT_PATH}{path.format(ref='x-bcdfg')}"
        sent = body_of(harness, path, "x-bcdfg") if method in {"POST", "PATCH"} else None
        answer = harness.request(method, where, peer=peer, json=sent)
        assert (answer.status_code, answer.json()["errorCode"]) == (401, "Stoker.00009")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert harness.request(method, where, bearer="sk-stoker-wrong", json=sent).status_code == 401


@pytest.mark.parametrize("caller", ["outsider", "nobody"])
@pytest.mark.parametrize(("method", "path"), ON_ONE)
def test_what_one_may_not_see_is_not_there(
    works: RunningHarness, theirs: str, caller: str, method: str, path: str
) -> None:
    sent = body_of(works, path, theirs) if method in {"POST", "PATCH"} else None
    answer = works.request(method, f"{MANAGEMENT_PATH}{path.format(ref=theirs)}", as_=caller, json=sent)
    hidden = works.request(method, f"{MANAGEMENT_PATH}{path.format(ref='x-bcdfg')}", as_=caller, json=sent)
    assert answer.status_code == 404
    if "failed" not in answer.json():
        assert answer.json()["errorCode"] == hidden.json()["errorCode"] == "Stoker.00005"
        assert answer.json()["errorMessage"].replace(theirs, "x-bcdfg") == hidden.json()["errorMessage"]
    assert "secret" not in answer.text
    assert works.listed(caller, workloadId=theirs) == []


@pytest.mark.parametrize("caller", ["viewer", "member", "manager", "admin"])
@pytest.mark.parametrize("path", READS)
def test_members_of_the_workspace_may_look(works: RunningHarness, theirs: str, caller: str, path: str) -> None:
    assert works.get(f"{MANAGEMENT_PATH}{path.format(ref=theirs)}", as_=caller).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", ""),
        ("PATCH", "/{ref}"),
        ("DELETE", "/{ref}"),
        ("POST", "/{ref}/stop"),
        ("POST", "/delete"),
        ("POST", "/stop"),
        ("POST", "/clone"),
    ],
)
def test_a_viewer_only_looks(harness: QueueHarness, method: str, path: str) -> None:
    ref = harness.submit("manager")
    sent = body_of(harness, path, ref) if method in {"POST", "PATCH"} else None
    answer = harness.request(method, f"{MANAGEMENT_PATH}{path.format(ref=ref)}", as_="viewer", json=sent)
    assert answer.status_code == 403
    code = answer.json()["failed"][0]["errorCode"] if "failed" in answer.json() else answer.json()["errorCode"]
    assert code == "Stoker.00003"
    assert harness.detail(ref)["phase"] == "Pending"


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "/{ref}"), ("POST", "/{ref}/stop"), ("DELETE", "/{ref}"), ("POST", "/stop")]
)
def test_a_member_keeps_its_own_and_a_manager_everything(harness: QueueHarness, method: str, path: str) -> None:
    for owner, caller, status in (
        ("member", "member", 204),
        ("manager", "member", 403),
        ("admin", "member", 403),
        ("member", "manager", 204),
        ("admin", "manager", 204),
        ("member", "admin", 204),
        ("member", "viewer", 403),
    ):
        ref = harness.submit(owner)
        sent = body_of(harness, path, ref) if method in {"POST", "PATCH"} else None
        answer = harness.request(method, f"{MANAGEMENT_PATH}{path.format(ref=ref)}", as_=caller, json=sent)
        assert answer.status_code == status, (owner, caller)


def test_an_owner_who_has_become_a_viewer_keeps_nothing(harness: QueueHarness) -> None:
    name = harness.add_user()
    workspace = harness.add_workspace(member=name)
    ref = harness.submit(name, workspaceId=workspace)
    harness.put(f"{V1}/workspaces/{workspace}/members/{name}", as_="admin", json={"role": "viewer"})
    assert harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_=name).status_code == 403
    harness.delete(f"{V1}/workspaces/{workspace}/members/{name}", as_="admin")
    assert harness.get(f"{MANAGEMENT_PATH}/{ref}", as_=name).status_code == 404
    assert harness.listed(name) == []


def test_a_key_does_no_more_than_its_scopes(harness: QueueHarness) -> None:
    ref = harness.submit()
    for scope, reads, writes in (("read", 200, 403), ("workloads", 200, 200), ("manage", 200, 403)):
        harness.keys["scoped"] = harness.add_key("member", scopes=[scope])["secret"]
        assert harness.get(f"{MANAGEMENT_PATH}/{ref}", as_="scoped").status_code == reads
        assert harness.post(MANAGEMENT_PATH, as_="scoped", json=harness.body()).status_code == writes


def test_what_is_not_there_is_told_in_the_words_of_the_family(harness: QueueHarness) -> None:
    answer = harness.run(super(QueueHarness, harness).ask("GET", "/api/custom/nothing", as_="member"))
    assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
    answer = harness.run(super(QueueHarness, harness).ask("PUT", MANAGEMENT_PATH, as_="member"))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, POST")


def test_a_body_of_two_mebibytes_is_taken_and_one_byte_more_is_not(harness: QueueHarness) -> None:
    padded = json.dumps(harness.body()).encode().ljust(2 * 2**20)
    assert harness.post(MANAGEMENT_PATH, as_="member", content=padded).status_code == 200
    answer = harness.post(MANAGEMENT_PATH, as_="member", content=padded + b" ")
    assert (answer.status_code, answer.json()["errorCode"]) == (413, "Stoker.00006")


def test_everything_that_was_done_and_refused_is_in_the_audit_log(harness: QueueHarness) -> None:
    ref = harness.submit("manager")
    harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="member")
    harness.post(f"{MANAGEMENT_PATH}/{ref}/stop", as_="manager")
    harness.delete(f"{MANAGEMENT_PATH}/{ref}", as_="manager")
    done = [(each["actor"], each["action"], each["result"]) for each in harness.audit(target=ref)]
    assert ("manager", "workload.create", "ok") in done
    assert ("manager", "workload.stop", "ok") in done
    assert ("manager", "workload.delete", "ok") in done
    assert ("member", "workload.stop", "not_allowed") in [
        (each["actor"], each["action"], each["result"]) for each in harness.audit(action="workload.stop")
    ]
