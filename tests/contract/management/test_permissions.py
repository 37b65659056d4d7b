"""Who may do what to whose workload, and the body that says no."""

import json
from typing import Any

import pytest
from tests.api.lab import FAR, SAFE, V1
from tests.contract.safe.lab import QueueLab, RunningLab

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


def body_of(lab: QueueLab, path: str, ref: str) -> Any:
    match path:
        case "":
            return lab.body()
        case "/delete" | "/stop" | "/clone":
            return {"workloadIds": [ref]}
        case _:
            return {}


@pytest.fixture(scope="module")
def theirs(works: RunningLab) -> str:
    """A workload of the manager of vision that has a pod and a service, and ended."""
    return works.finished("manager", run="echo secret", service={"port": 8080})["workloadId"]


@pytest.mark.parametrize(("method", "path"), ENDPOINTS)
def test_without_a_credential_nothing_is_answered(lab: QueueLab, method: str, path: str) -> None:
    for peer in ("127.0.0.1", FAR):
        where = f"{SAFE}{path.format(ref='x-bcdfg')}"
        sent = body_of(lab, path, "x-bcdfg") if method in {"POST", "PATCH"} else None
        answer = lab.request(method, where, peer=peer, json=sent)
        assert (answer.status_code, answer.json()["errorCode"]) == (401, "Stoker.00009")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        assert lab.request(method, where, bearer="sk-stoker-wrong", json=sent).status_code == 401


@pytest.mark.parametrize("caller", ["outsider", "nobody"])
@pytest.mark.parametrize(("method", "path"), ON_ONE)
def test_what_one_may_not_see_is_not_there(works: RunningLab, theirs: str, caller: str, method: str, path: str) -> None:
    sent = body_of(works, path, theirs) if method in {"POST", "PATCH"} else None
    answer = works.request(method, f"{SAFE}{path.format(ref=theirs)}", as_=caller, json=sent)
    hidden = works.request(method, f"{SAFE}{path.format(ref='x-bcdfg')}", as_=caller, json=sent)
    assert answer.status_code == 404
    if "failed" not in answer.json():
        assert answer.json()["errorCode"] == hidden.json()["errorCode"] == "Stoker.00005"
        assert answer.json()["errorMessage"].replace(theirs, "x-bcdfg") == hidden.json()["errorMessage"]
    assert "secret" not in answer.text
    assert works.listed(caller, workloadId=theirs) == []


@pytest.mark.parametrize("caller", ["viewer", "member", "manager", "admin"])
@pytest.mark.parametrize("path", READS)
def test_members_of_the_workspace_may_look(works: RunningLab, theirs: str, caller: str, path: str) -> None:
    assert works.get(f"{SAFE}{path.format(ref=theirs)}", as_=caller).status_code == 200


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
def test_a_viewer_only_looks(lab: QueueLab, method: str, path: str) -> None:
    ref = lab.submit("manager")
    sent = body_of(lab, path, ref) if method in {"POST", "PATCH"} else None
    answer = lab.request(method, f"{SAFE}{path.format(ref=ref)}", as_="viewer", json=sent)
    assert answer.status_code == 403
    code = answer.json()["failed"][0]["errorCode"] if "failed" in answer.json() else answer.json()["errorCode"]
    assert code == "Stoker.00003"
    assert lab.detail(ref)["phase"] == "Pending"


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "/{ref}"), ("POST", "/{ref}/stop"), ("DELETE", "/{ref}"), ("POST", "/stop")]
)
def test_a_member_keeps_its_own_and_a_manager_everything(lab: QueueLab, method: str, path: str) -> None:
    for owner, caller, status in (
        ("member", "member", 204),
        ("manager", "member", 403),
        ("admin", "member", 403),
        ("member", "manager", 204),
        ("admin", "manager", 204),
        ("member", "admin", 204),
        ("member", "viewer", 403),
    ):
        ref = lab.submit(owner)
        sent = body_of(lab, path, ref) if method in {"POST", "PATCH"} else None
        answer = lab.request(method, f"{SAFE}{path.format(ref=ref)}", as_=caller, json=sent)
        assert answer.status_code == status, (owner, caller)


def test_an_owner_who_has_become_a_viewer_keeps_nothing(lab: QueueLab) -> None:
    name = lab.add_user()
    workspace = lab.add_workspace(member=name)
    ref = lab.submit(name, workspaceId=workspace)
    lab.put(f"{V1}/workspaces/{workspace}/members/{name}", as_="admin", json={"role": "viewer"})
    assert lab.post(f"{SAFE}/{ref}/stop", as_=name).status_code == 403
    lab.delete(f"{V1}/workspaces/{workspace}/members/{name}", as_="admin")
    assert lab.get(f"{SAFE}/{ref}", as_=name).status_code == 404
    assert lab.listed(name) == []


def test_a_key_does_no_more_than_its_scopes(lab: QueueLab) -> None:
    ref = lab.submit()
    for scope, reads, writes in (("read", 200, 403), ("workloads", 200, 200), ("manage", 200, 403)):
        lab.keys["scoped"] = lab.add_key("member", scopes=[scope])["secret"]
        assert lab.get(f"{SAFE}/{ref}", as_="scoped").status_code == reads
        assert lab.post(SAFE, as_="scoped", json=lab.body()).status_code == writes


def test_what_is_not_there_is_told_in_the_words_of_the_family(lab: QueueLab) -> None:
    answer = lab.run(super(QueueLab, lab).ask("GET", "/api/custom/nothing", as_="member"))
    assert (answer.status_code, answer.json()["errorCode"]) == (404, "Stoker.00005")
    answer = lab.run(super(QueueLab, lab).ask("PUT", SAFE, as_="member"))
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD, POST")


def test_a_body_of_two_mebibytes_is_taken_and_one_byte_more_is_not(lab: QueueLab) -> None:
    padded = json.dumps(lab.body()).encode().ljust(2 * 2**20)
    assert lab.post(SAFE, as_="member", content=padded).status_code == 200
    answer = lab.post(SAFE, as_="member", content=padded + b" ")
    assert (answer.status_code, answer.json()["errorCode"]) == (413, "Stoker.00006")


def test_everything_that_was_done_and_refused_is_in_the_audit_log(lab: QueueLab) -> None:
    ref = lab.submit("manager")
    lab.post(f"{SAFE}/{ref}/stop", as_="member")
    lab.post(f"{SAFE}/{ref}/stop", as_="manager")
    lab.delete(f"{SAFE}/{ref}", as_="manager")
    done = [(each["actor"], each["action"], each["result"]) for each in lab.audit(target=ref)]
    assert ("manager", "workload.create", "ok") in done
    assert ("manager", "workload.stop", "ok") in done
    assert ("manager", "workload.delete", "ok") in done
    assert ("member", "workload.stop", "not_allowed") in [
        (each["actor"], each["action"], each["result"]) for each in lab.audit(action="workload.stop")
    ]
