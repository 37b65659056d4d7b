"""Every endpoint, called by every role. The table is written by hand: a new endpoint needs a row here."""

import re
from typing import Any

import httpx
import pytest
from msgspec import Struct
from tests.api.harness import FAR, MANAGEMENT_PATH, PASSWORD, V1, Harness

from stoker.api.routes import ENDPOINTS

CALLERS = ("anonymous", "nobody", "outsider", "viewer", "member", "manager", "admin")

# The least that a caller must be. Below it: anonymous 401; a role that is too low 403;
# where the thing itself is hidden (a workspace, another user's things), strangers see 404.
ANYONE = "anyone"
SIGNED_IN = "whoever has signed in"
VIEWER = "viewer of the workspace"
MEMBER = "member of the workspace"
MANAGER = "manager of the workspace"
OWNER_OR_MANAGER = "member whose own it is, or manager of the workspace"
OWNER = "the user it belongs to, or an admin"
ADMIN = "admin"
MONITORING_PATH = "/api/workloads"
USAGE = "/api/v1/gpu-aggregation"
RUNAI = "/api/v1/workloads"
ADMIN_INSIDE = "admin, of a workspace that strangers do not see"


WORK = {
    "groupVersionKind": {"kind": "Authoring", "version": "v1"},
    "image": "python:3.11",
    "resource": {"cpu": "1", "memory": "1Gi", "replica": 1},
}
HOURS = "start_time=2025-11-05T00:00:00Z&end_time=2025-11-05T01:00:00Z"
SPAN = "start=2025-11-05T00:00:00Z&end=2025-11-05T01:00:00Z"
HOOK = "https://8.8.8.8/hook"
APP = {"appId": "{app}", "appSecret": "{secret}"}
PLACE = {"name": "{new}", "projectId": "{project}", "clusterId": "{uuid}"}
SHELL = {"image": "python:3.11", "compute": {"cpuCoreRequest": 1, "cpuMemoryRequest": "1Gi"}}
SCRIPT = {**SHELL, "command": "true"}
SERVE = {**SCRIPT, "servingPort": {"container": 8080}}
MANIFEST = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"containers": [{"image": "python:3.11", "command": ["true"]}]}}},
}


class AccessCase(Struct, frozen=True):
    """`{things}` in path and body are created anew for each request, so that requests do not affect each other."""

    method: str
    path: str
    least: str
    status: int
    body: Any = None

    @property
    def endpoint(self) -> str:
        return f"{self.method} {_anonymous(self.path.partition('?')[0])}"


ACCESS_CASES = [
    # The installation
    AccessCase("GET", "/", ANYONE, 200),
    AccessCase("GET", "/healthz", ANYONE, 200),
    AccessCase("GET", "/readyz", ANYONE, 200),
    AccessCase("GET", "/openapi.json", ANYONE, 200),
    AccessCase("GET", "/openapi/{document}", ANYONE, 200),
    AccessCase("GET", "/docs", ANYONE, 200),
    AccessCase("GET", "/docs/{page}", ANYONE, 200),
    AccessCase("GET", "/metrics", SIGNED_IN, 200),  # asked from another machine
    AccessCase("GET", f"{V1}/settings", ADMIN, 200),
    AccessCase("GET", f"{V1}/audit", ADMIN, 200),
    AccessCase("GET", f"{V1}/clusters", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/clusters/{{cluster}}", SIGNED_IN, 200),
    AccessCase("POST", f"{V1}/clusters", ADMIN, 201, {"name": "{new}", "docker": {"url": "unix:///nowhere.sock"}}),
    AccessCase("PATCH", f"{V1}/clusters/{{remote}}", ADMIN, 200, {"description": "x"}),
    AccessCase("DELETE", f"{V1}/clusters/{{remote}}", ADMIN, 204),
    AccessCase("POST", f"{V1}/clusters/{{remote}}/check", ADMIN, 200),
    # Who one is
    AccessCase("POST", f"{V1}/login", ANYONE, 200, {"username": "{person}", "password": PASSWORD}),
    AccessCase(
        "POST", "/api/v1/token", ANYONE, 200, {"grantType": "app_token", "appId": "{app}", "appSecret": "{secret}"}
    ),
    AccessCase("POST", f"{V1}/logout", SIGNED_IN, 204),
    AccessCase("GET", f"{V1}/me", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/may?action=user.list", SIGNED_IN, 200),
    # Users and what proves who they are
    AccessCase("GET", f"{V1}/users", ADMIN, 200),
    AccessCase("POST", f"{V1}/users", ADMIN, 201, {"name": "{new}"}),
    AccessCase("GET", f"{V1}/users/{{user}}", OWNER, 200),
    AccessCase("PATCH", f"{V1}/users/{{user}}", ADMIN, 200, {"fullName": "Li Wei"}),
    AccessCase("DELETE", f"{V1}/users/{{user}}", ADMIN, 204),
    AccessCase("PUT", f"{V1}/users/{{user}}/password", OWNER, 204, {"password": PASSWORD}),
    AccessCase("GET", f"{V1}/keys", SIGNED_IN, 200),
    AccessCase("POST", f"{V1}/keys", SIGNED_IN, 201, {"name": "mine"}),
    AccessCase("DELETE", f"{V1}/keys/{{key}}", OWNER, 204),
    AccessCase("GET", f"{V1}/applications", ADMIN, 200),
    AccessCase("POST", f"{V1}/applications", ADMIN, 201, {"name": "{new}", "workspaces": ["default"]}),
    AccessCase("PATCH", f"{V1}/applications/{{app}}", ADMIN, 200, {"disabled": True}),
    AccessCase("POST", f"{V1}/applications/{{app}}/secret", ADMIN, 201),
    AccessCase("DELETE", f"{V1}/applications/{{app}}", ADMIN, 204),
    # Departments, workspaces and their members
    AccessCase("GET", f"{V1}/departments", SIGNED_IN, 200),
    AccessCase("POST", f"{V1}/departments", ADMIN, 201, {"name": "{new}"}),
    AccessCase("GET", f"{V1}/departments/{{department}}", SIGNED_IN, 200),
    AccessCase("PATCH", f"{V1}/departments/{{department}}", ADMIN, 200, {"description": "x"}),
    AccessCase("DELETE", f"{V1}/departments/{{department}}", ADMIN, 204),
    AccessCase("GET", f"{V1}/workspaces", SIGNED_IN, 200),
    AccessCase("POST", f"{V1}/workspaces", ADMIN, 201, {"name": "{new}"}),
    AccessCase("GET", f"{V1}/workspaces/{{workspace}}", VIEWER, 200),
    AccessCase("PATCH", f"{V1}/workspaces/{{workspace}}", MANAGER, 200, {"description": "x", "preemption": False}),
    AccessCase("DELETE", f"{V1}/workspaces/{{workspace}}", ADMIN, 204),
    AccessCase("GET", f"{V1}/workspaces/{{workspace}}/members", VIEWER, 200),
    AccessCase("PUT", f"{V1}/workspaces/{{workspace}}/members/{{user}}", MANAGER, 200, {"role": "viewer"}),
    AccessCase("DELETE", f"{V1}/workspaces/{{workspace}}/members/viewer", MANAGER, 204),
    # Webhooks; each is of a workspace
    AccessCase("GET", f"{V1}/webhooks", SIGNED_IN, 200),
    AccessCase("POST", f"{V1}/webhooks", MANAGER, 201, {"url": HOOK, "workspace": "{workspace}"}),
    AccessCase("GET", f"{V1}/webhooks/{{webhook}}", MANAGER, 200),
    AccessCase("PATCH", f"{V1}/webhooks/{{webhook}}", MANAGER, 200, {"enabled": False}),
    AccessCase("DELETE", f"{V1}/webhooks/{{webhook}}", MANAGER, 204),
    AccessCase("POST", f"{V1}/webhooks/{{webhook}}/secret", MANAGER, 201, {}),
    AccessCase("POST", f"{V1}/webhooks/{{webhook}}/test", MANAGER, 202),
    AccessCase("GET", f"{V1}/webhooks/{{webhook}}/deliveries", MANAGER, 200),
    AccessCase("POST", f"{V1}/webhooks/{{webhook}}/deliveries/{{delivery}}/retry", MANAGER, 202),
    # Workloads; each belongs to the admin and waits in a workspace
    AccessCase("POST", MANAGEMENT_PATH, MEMBER, 200, {"displayName": "{new}", "workspaceId": "{workspace}", **WORK}),
    AccessCase("GET", MANAGEMENT_PATH, SIGNED_IN, 200),
    AccessCase("GET", f"{MANAGEMENT_PATH}/{{workload}}", VIEWER, 200),
    AccessCase("PATCH", f"{MANAGEMENT_PATH}/{{workload}}", OWNER_OR_MANAGER, 204, {"description": "x"}),
    AccessCase("DELETE", f"{MANAGEMENT_PATH}/{{workload}}", OWNER_OR_MANAGER, 204),
    AccessCase("POST", f"{MANAGEMENT_PATH}/{{workload}}/stop", OWNER_OR_MANAGER, 204),
    AccessCase("POST", f"{MANAGEMENT_PATH}/delete", OWNER_OR_MANAGER, 204, {"workloadIds": ["{workload}"]}),
    AccessCase("POST", f"{MANAGEMENT_PATH}/stop", OWNER_OR_MANAGER, 204, {"workloadIds": ["{workload}"]}),
    AccessCase("POST", f"{MANAGEMENT_PATH}/clone", MEMBER, 204, {"workloadIds": ["{workload}"]}),
    AccessCase("GET", f"{MANAGEMENT_PATH}/{{workload}}/service", VIEWER, 200),
    AccessCase("GET", f"{MANAGEMENT_PATH}/{{workload}}/pods/{{pod}}/logs", VIEWER, 404),  # it has no pods yet
    AccessCase("GET", f"{MANAGEMENT_PATH}/{{workload}}/pods/{{pod}}/containers", VIEWER, 404),
    AccessCase("POST", f"{V1}/workloads/{{stopped}}/resume", OWNER_OR_MANAGER, 204),
    AccessCase("GET", f"{V1}/workloads/{{workload}}/logs", VIEWER, 200),
    AccessCase("GET", f"{V1}/workloads/{{workload}}/explain", VIEWER, 200),
    AccessCase("GET", f"{V1}/working-directory?path=/&workspace={{workspace}}", MEMBER, 200),
    AccessCase("GET", f"{V1}/events", SIGNED_IN, 200),
    AccessCase("GET", "/schemas/job.json", ANYONE, 200),
    # Monitoring, asked from another machine: the fleet is open to whoever has signed in
    AccessCase("GET", MONITORING_PATH, SIGNED_IN, 200),
    AccessCase("GET", f"{MONITORING_PATH}/{{workload}}", SIGNED_IN, 200),
    AccessCase("GET", f"{MONITORING_PATH}/{{workload}}/hierarchy", SIGNED_IN, 200),
    AccessCase("GET", f"{MONITORING_PATH}/{{workload}}/metrics?start=1&end=2", SIGNED_IN, 200),
    AccessCase("GET", f"{MONITORING_PATH}/{{workload}}/trainingPerformance?start=1&end=2", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/workloads/{{workload}}/metrics", VIEWER, 200),
    AccessCase("GET", f"{V1}/workloads/{{workload}}/training-metrics", VIEWER, 200),
    AccessCase(
        "POST", f"{V1}/workloads/{{workload}}/training-metrics", OWNER_OR_MANAGER, 204, {"metrics": {"loss": 0.5}}
    ),
    AccessCase("GET", "/api/workloadMetadata", SIGNED_IN, 200),
    AccessCase("GET", "/api/clusters/overview", SIGNED_IN, 200),
    AccessCase("GET", "/api/clusters/consumers", SIGNED_IN, 200),
    AccessCase("GET", "/api/clusters/gpuHeatmap", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/overview", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/consumers", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/nodes", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/gpus", SIGNED_IN, 200),
    # Reports: each shows a caller what its workspaces held
    AccessCase("GET", f"{V1}/usage", SIGNED_IN, 200),
    AccessCase("GET", f"{V1}/waste", SIGNED_IN, 200),
    # Usage: open like the rest of monitoring
    AccessCase("GET", f"{USAGE}/clusters", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/namespaces", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/dimension-keys", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/dimension-values?dimension_key=team", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/cluster/hourly-stats?{HOURS}", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/namespaces/hourly-stats?{HOURS}", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/labels/hourly-stats?{HOURS}&dimension_type=label&dimension_key=team", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/workloads/hourly-stats?{HOURS}", SIGNED_IN, 200),
    AccessCase("GET", f"{USAGE}/snapshots/latest", SIGNED_IN, 404),  # none was taken yet
    AccessCase("GET", f"{USAGE}/snapshots", SIGNED_IN, 200),
    # What Run:ai's clients ask for
    AccessCase("POST", "/api/v2/token", ANYONE, 400, APP),  # it takes a form
    AccessCase("POST", "/v1/k8s/auth/oauth/apptoken", ANYONE, 200, APP),
    AccessCase("GET", RUNAI, SIGNED_IN, 200),
    AccessCase("GET", f"{RUNAI}/count", SIGNED_IN, 200),
    AccessCase("GET", f"{RUNAI}/telemetry?telemetryType=WORKLOADS_COUNT", SIGNED_IN, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}", VIEWER, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}/events", VIEWER, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}/history", VIEWER, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}/metrics?{SPAN}&metricType=GPU_UTILIZATION", VIEWER, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}/pods", VIEWER, 200),
    AccessCase("GET", f"{RUNAI}/{{workload}}/pods/{{pod}}/metrics?{SPAN}&metricType=GPU_UTILIZATION", VIEWER, 404),
    AccessCase(
        "GET", f"{RUNAI}/inferences/{{workload}}/metrics?{SPAN}&metricType=LATENCY", SIGNED_IN, 404
    ),  # it is none
    AccessCase(
        "GET", f"{RUNAI}/inferences/{{workload}}/pods/{{pod}}/metrics?{SPAN}&metricType=LATENCY", SIGNED_IN, 404
    ),
    AccessCase("GET", f"{RUNAI}/pods", SIGNED_IN, 200),
    AccessCase("GET", f"{RUNAI}/pods/count", SIGNED_IN, 200),
    AccessCase("POST", f"{RUNAI}/workspaces", MEMBER, 202, {**PLACE, "spec": SHELL}),
    AccessCase("POST", f"{RUNAI}/trainings", MEMBER, 202, {**PLACE, "spec": SCRIPT}),
    AccessCase("POST", f"{RUNAI}/distributed", MEMBER, 202, {**PLACE, "spec": {**SCRIPT, "numWorkers": 1}}),
    AccessCase("POST", f"{RUNAI}/inferences", MEMBER, 202, {**PLACE, "spec": SERVE}),
    AccessCase("POST", f"{RUNAI}/distributed-inferences", SIGNED_IN, 400, {**PLACE, "spec": {}}),  # not possible here
    AccessCase("PATCH", f"{RUNAI}/workspaces/{{workload}}", VIEWER, 400, {}),  # only inferences are changed
    AccessCase("GET", f"{RUNAI}/workspaces/{{workload}}", VIEWER, 200),
    AccessCase("DELETE", f"{RUNAI}/workspaces/{{workload}}", OWNER_OR_MANAGER, 202),
    AccessCase("POST", f"{RUNAI}/workspaces/{{workload}}/suspend", OWNER_OR_MANAGER, 202),
    AccessCase("POST", f"{RUNAI}/workspaces/{{stopped}}/resume", OWNER_OR_MANAGER, 202),
    AccessCase(
        "POST", f"{RUNAI}/batch", SIGNED_IN, 200, {"ids": ["{workload}"], "action": "suspend"}
    ),  # says it of each
    AccessCase("POST", f"{V1}/workloads/{{workload}}/suspend", OWNER_OR_MANAGER, 204),
    AccessCase("POST", f"{V1}/workloads/{{workload}}/rollback", OWNER_OR_MANAGER, 409),
    AccessCase("POST", "/api/v2/workloads", MEMBER, 202, {"metadata": PLACE, "manifest": MANIFEST}),
    AccessCase("GET", "/api/v2/workloads/{workload}", VIEWER, 200),
    AccessCase("PUT", "/api/v2/workloads/{workload}", OWNER_OR_MANAGER, 202, {"metadata": {"priority": "high"}}),
    AccessCase("DELETE", "/api/v2/workloads/{workload}", OWNER_OR_MANAGER, 202),
    AccessCase("GET", "/api/v1/org-unit/projects", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/org-unit/projects/count", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/org-unit/projects/{project}", VIEWER, 200),
    AccessCase("GET", "/api/v1/org-unit/departments", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/org-unit/departments/count", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/org-unit/departments/1", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/clusters", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/clusters/{uuid}", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/clusters/{uuid}/nodes", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/clusters/{uuid}/nodes/count", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/node-pools", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/node-pools/count", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/node-pools/{pool}", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/nodes", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/nodes/count", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/nodes/telemetry?telemetryType=TOTAL_GPUS", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/workload-types", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/workload-types/{type}", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/workload-categories", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/workload-categories/{category}", SIGNED_IN, 200),
    AccessCase("GET", "/api/v1/workload-priorities", SIGNED_IN, 200),
]
FURTHER = [
    # The same endpoints, asked for something that another role may do
    AccessCase("PATCH", f"{V1}/workspaces/{{workspace}}", ADMIN_INSIDE, 200, {"quota": {"gpu": "8"}}),
    AccessCase("PATCH", f"{V1}/workspaces/{{workspace}}", ADMIN_INSIDE, 200, {"department": "default"}),
    AccessCase("POST", f"{V1}/webhooks", ADMIN, 201, {"url": HOOK}),
    AccessCase("GET", f"{V1}/webhooks?workspace={{workspace}}", VIEWER, 200),
    AccessCase("GET", f"{V1}/keys?user={{user}}", OWNER, 200),
    AccessCase("POST", f"{V1}/keys", OWNER, 201, {"name": "theirs", "user": "{user}"}),
    AccessCase("GET", f"{V1}/may?action=user.list&workspace={{workspace}}", VIEWER, 200),
    AccessCase("PATCH", f"{MANAGEMENT_PATH}/{{workload}}", MANAGER, 204, {"priority": 2}),
    AccessCase("GET", f"{V1}/events?workload={{workload}}", VIEWER, 200),
]

MEMBERS = ("viewer", "member", "manager")
CODES = {401: "not_signed_in", 403: "not_allowed", 404: "not_found", 409: "conflict"}


def _anonymous(path: str) -> str:
    """A path with `{}` in place of its variables; `viewer` is a name in one of the rows."""
    return re.sub(r"\{[^}]*\}|viewer$|(?<=departments/)1$|(?<=v1/workloads/)workspaces(?=/)", "{}", path)


def expected(row: AccessCase, caller: str) -> int:
    """The status that the table states for this caller."""
    if row.least == ANYONE or caller == "admin":
        return row.status
    if caller == "anonymous":
        return 401
    stranger = caller not in MEMBERS
    match row.least:
        case "whoever has signed in":
            return row.status
        case "viewer of the workspace":
            return 404 if stranger else row.status
        case "member of the workspace":
            return 404 if stranger else (403 if caller == "viewer" else row.status)
        case "manager of the workspace" | "member whose own it is, or manager of the workspace":
            return 404 if stranger else (row.status if caller == "manager" else 403)
        case "the user it belongs to, or an admin":
            return 404
        case "admin, of a workspace that strangers do not see":
            return 404 if stranger else 403
        case _:
            return 403


def ask(harness: Harness, row: AccessCase, caller: str) -> httpx.Response:
    made: dict[str, str] = {}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(each) for key, each in value.items()}
        if isinstance(value, list):
            return [replaced(each) for each in value]
        if not isinstance(value, str):
            return value
        return re.sub(r"\{(\w+)\}", lambda found: _thing(harness, found[1], made), value)

    path, body = replaced(row.path), replaced(row.body)
    if caller == "anonymous":
        return harness.request(row.method, path, json=body, peer=FAR)
    return harness.request(row.method, path, json=body, peer=FAR, as_=caller)


def _thing(harness: Harness, kind: str, made: dict[str, str]) -> str:
    """A new object of this kind; a kind that a request names twice is the same object."""
    if kind in made:
        return made[kind]
    match kind:
        case "new":
            made[kind] = harness.name("new")
        case "page":
            made[kind] = "start.js"
        case "document":
            made[kind] = "native.json"
        case "cluster":
            made[kind] = "local"
        case "remote":
            body = {"name": harness.name("remote"), "docker": {"url": "unix:///nowhere.sock"}}
            made[kind] = harness.post(f"{V1}/clusters", as_="admin", json=body).json()["name"]
        case "user":
            made[kind] = harness.add_user()
        case "person":
            made[kind] = harness.add_user(password=PASSWORD)
        case "key":
            made[kind] = harness.add_key(harness.add_user())["key"]["id"]
        case "app" | "secret":
            issued = harness.add_application()
            made |= {"app": issued["clientId"], "secret": issued["clientSecret"]}
        case "department":
            made[kind] = harness.post(
                f"{V1}/departments", as_="admin", json={"name": harness.name("department")}
            ).json()["name"]
        case "workspace":
            made[kind] = harness.add_workspace(viewer="viewer", member="member", manager="manager")
        case "webhook":
            hook = {"url": HOOK, "workspace": _thing(harness, "workspace", made)}
            made[kind] = harness.post(f"{V1}/webhooks", as_="admin", json=hook).json()["webhook"]["id"]
        case "delivery":
            sent = harness.post(f"{V1}/webhooks/{_thing(harness, 'webhook', made)}/test", as_="admin")
            made[kind] = str(sent.json()["number"])
        case "workload" | "stopped":
            made[kind] = harness.add_workload(_thing(harness, "workspace", made), service={"port": 8080})
            if kind == "stopped":
                harness.post(f"{MANAGEMENT_PATH}/{made[kind]}/stop", as_="admin")
        case "pod":
            made[kind] = "master-0"
        case "project":
            workspace = _thing(harness, "workspace", made)
            made[kind] = str(harness.get(f"{V1}/workspaces/{workspace}", as_="admin").json()["id"])
        case "uuid":
            made[kind] = harness.get(f"{V1}/clusters/local", as_="admin").json()["id"]
        case "pool" | "type" | "category":
            path = {"pool": "node-pools", "type": "workload-types", "category": "workload-categories"}[kind]
            [rows] = [
                each for each in harness.get(f"/api/v1/{path}", as_="admin").json().values() if isinstance(each, list)
            ]
            made[kind] = rows[0]["id"]
    return made[kind]


def test_every_endpoint_has_a_row_and_every_row_an_endpoint() -> None:
    declared = [f"{endpoint.method} {_anonymous(endpoint.path)}" for endpoint in ENDPOINTS]
    assert sorted(row.endpoint for row in ACCESS_CASES) == sorted(declared)
    assert {row.endpoint for row in FURTHER} <= set(declared)


@pytest.mark.parametrize("row", [*ACCESS_CASES, *FURTHER], ids=lambda row: f"{row.method} {row.path}")
def test_everyone_gets_what_the_table_says(shared_harness: Harness, row: AccessCase) -> None:
    answers = {caller: ask(shared_harness, row, caller) for caller in CALLERS}
    assert {caller: answer.status_code for caller, answer in answers.items()} == {
        caller: expected(row, caller) for caller in CALLERS
    }
    for answer in answers.values():
        if answer.is_error and row.path.startswith(V1):
            assert answer.json()["error"]["code"] == CODES[answer.status_code]


def test_one_may_do_to_oneself_what_the_table_reserves_to_the_owner(shared_harness: Harness) -> None:
    name = shared_harness.add_user(password=PASSWORD)
    key = shared_harness.post(f"{V1}/keys", as_=name, json={"name": "own", "user": name})
    assert key.status_code == 201
    body = {"password": "another password", "currentPassword": PASSWORD}
    answers = [
        shared_harness.get(f"{V1}/users/{name}", as_=name),
        shared_harness.get(f"{V1}/keys?user={name}", as_=name),
        shared_harness.put(f"{V1}/users/{name}/password", as_=name, json=body),
        shared_harness.delete(f"{V1}/keys/{key.json()['key']['id']}", as_=name),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 204, 204]


def test_a_member_may_do_to_its_own_workload_what_another_member_may_not(shared_harness: Harness) -> None:
    own = shared_harness.add_workload("vision", as_="member")
    anothers = shared_harness.add_workload("vision", as_="manager")
    for method, path, body in (
        ("PATCH", "", {"description": "x"}),
        ("POST", "/stop", None),
        ("DELETE", "", None),
    ):
        assert (
            shared_harness.request(method, f"{MANAGEMENT_PATH}/{anothers}{path}", as_="member", json=body).status_code
            == 403
        )
        assert (
            shared_harness.request(method, f"{MANAGEMENT_PATH}/{own}{path}", as_="member", json=body).status_code == 204
        )


@pytest.mark.parametrize("caller", ["viewer", "member"])
def test_a_member_without_the_right_is_told_which_role_it_takes(shared_harness: Harness, caller: str) -> None:
    answer = shared_harness.patch(f"{V1}/workspaces/vision", as_=caller, json={"description": "x"})
    message = f"Not allowed: workspace.update needs the workspace role manager or more; you are {caller}."
    assert (answer.status_code, answer.json()["error"]["message"]) == (403, message)
    assert shared_harness.get(f"{V1}/workspaces/vision", as_="admin").json()["description"] == ""


def test_may_says_what_the_answer_would_be(shared_harness: Harness) -> None:
    asked = f"{V1}/may?action=workspace.update&workspace=vision"
    assert shared_harness.get(asked, as_="manager").json()["allowed"] is True
    assert shared_harness.get(asked, as_="viewer").json() == {
        "allowed": False,
        "rule": "workspace.update needs the workspace role manager or more; you are viewer",
    }
    assert shared_harness.get(f"{V1}/may?action=user.create", as_="viewer").json() == {
        "allowed": False,
        "rule": "user.create is for admins",
    }
    assert shared_harness.get(f"{V1}/may?action=user.create", as_="admin").json() == {
        "allowed": True,
        "rule": "an admin may do everything",
    }
