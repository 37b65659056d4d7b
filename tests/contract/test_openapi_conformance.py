"""Every endpoint, asked with what its own OpenAPI document allows and forbids: it keeps what the document promises."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, BaseSchema, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as conformance
from tests.api.lab import PASSWORD, SAFE, V1, Lab
from tests.postgres import PostgresServer

from stoker.api.endpoint import Endpoint
from stoker.api.runai.properties import CATEGORY_ROWS, TYPE_ROWS
from stoker.api.table import ENDPOINTS

CHECKS = [
    not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
    conformance.response_headers_conformance,
    conformance.negative_data_rejection,
]
EXAMPLES = {("sqlite", "admin"): 16, ("sqlite", "anonymous"): 4, ("postgres", "admin"): 6}
HOOK = "https://8.8.8.8/hook"
BASE = "http://127.0.0.1:8080"
FINITE = [endpoint for endpoint in ENDPOINTS if endpoint.media_type != "text/event-stream"]
"""A stream of events has no end to be judged by."""
NOT_GUESSED = {
    # Only what is made of secrets gets through here, and a generator does not guess those.
    f"{V1}/login",
    "/api/v1/token",
    "/api/v2/token",
    "/v1/k8s/auth/oauth/apptoken",
    # Nor a range whose end comes after its start, and not too long after it.
    "/api/workloads/{uid}/metrics",
    "/api/v1/workloads/{workloadId}/metrics",
    "/api/v1/workloads/{workloadId}/pods/{podId}/metrics",
    "/api/v1/workloads/inferences/{workloadId}/metrics",
    "/api/v1/workloads/inferences/{workloadId}/pods/{podId}/metrics",
    *(f"/api/v1/gpu-aggregation/{level}/hourly-stats" for level in ("cluster", "namespaces", "labels", "workloads")),
    # Nor a spec with nothing in it that has no counterpart here; the last of these is never served.
    *(f"/api/v1/workloads/{kind}" for kind in ("workspaces", "trainings", "distributed", "inferences")),
    "/api/v1/workloads/distributed-inferences",
    # Nor a manifest.
    "/api/v2/workloads",
    # Nothing runs here, so there are no pods, and nobody has looked at who holds what.
    "/api/v1/gpu-aggregation/snapshots/latest",
    f"{SAFE}/{{name}}/pods/{{podId}}/logs",
    f"{SAFE}/{{name}}/pods/{{podId}}/containers",
}
pytestmark = pytest.mark.slow


class Target:
    """A throw-away installation with one thing of each kind to aim at; what a request removes is put back."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.database = "postgres" if lab.settings.database else "sqlite"
        self.schema: BaseSchema = schemathesis.openapi.from_dict(lab.get("/openapi.json").json())
        self._numbers = itertools.count(1)
        lab.add_user("li", password=PASSWORD)
        lab.add_workspace("vision", member="li")
        vision = lab.get(f"{V1}/workspaces/vision", as_="admin").json()
        self.place = {"projectId": str(vision["id"]), "clusterId": vision["cluster"]}

    def operation(self, endpoint: Endpoint) -> APIOperation:
        return self.schema[endpoint.path][endpoint.method]

    def existing(self, endpoint: Endpoint) -> dict[str, str]:
        """Values of the path's variables that lead to something which is there."""
        match endpoint.path.removeprefix(V1).split("/")[1:]:
            case ["users", "{name}", *_]:
                self._make("users", {"name": "target", "password": PASSWORD})
                return {"name": "target"}
            case ["departments", "{name}"]:
                self._make("departments", {"name": "target"})
                return {"name": "target"}
            case ["workspaces", "{name}", "members", "{user}"]:
                self._make("workspaces", {"name": "target"})
                self.lab.put(f"{V1}/workspaces/target/members/li", as_="admin", json={"role": "viewer"})
                return {"name": "target", "user": "li"}
            case ["workspaces", "{name}", *_]:
                self._make("workspaces", {"name": "target"})
                return {"name": "target"}
            case ["keys", "{id}"]:
                return {"id": self._make("keys", {"name": "target"})["key"]["id"]}
            case ["applications", "{clientId}", *_]:
                return {"clientId": self._make("applications", {"name": self.new_name()})["clientId"]}
            case ["webhooks", "{id}", *rest]:
                made = self._make("webhooks", {"url": HOOK, "workspace": self._workspace()})["webhook"]["id"]
                if rest[:1] != ["deliveries"]:
                    return {"id": made}
                sent = self.lab.post(f"{V1}/webhooks/{made}/test", as_="admin").json()["number"]
                return {"id": made, **({"number": str(sent)} if len(rest) > 1 else {})}
            case ["clusters", "{name}"]:
                return {"name": "local"}
            case ["docs", "{name}"]:
                return {"name": "start.js"}
            case ["workloads", "{name}", "resume"]:
                return {"name": self.new_workload(stopped=True)}
            case ["workloads", "{name}", *_] | ["api", "custom", "workloads", "{name}"]:
                return {"name": self.new_workload()}
            case ["api", "custom", "workloads", "{name}", "pods", "{podId}", _]:
                return {"name": self.new_workload(), "podId": "master-0"}
            case ["api", "custom", "workloads", "{name}", _]:
                return {"name": self.new_workload()}
            case ["api", "v1", "org-unit", "projects", "{projectId}"]:
                return {"projectId": self.place["projectId"]}
            case ["api", "v1", "org-unit", "departments", "{departmentId}"]:
                return {"departmentId": "1"}
            case ["api", "v1", "clusters", "{clusterUuid}", *_]:
                return {"clusterUuid": "local"}
            case ["api", "v1", "node-pools", "{nodepoolId}"]:
                [pool] = self.lab.get("/api/v1/node-pools", as_="admin").json()["nodepools"]
                return {"nodepoolId": pool["id"]}
            case ["api", "v1", "workload-types", _]:
                return {"workloadTypeId": TYPE_ROWS[0].id}
            case ["api", "v1", "workload-categories", _]:
                return {"categoryId": CATEGORY_ROWS[0].id}
            case ["api", "v1", "workloads", "{workloadId}", "events" | "history" | "pods"]:
                return {"workloadId": self.new_workload()}
            case ["api", "v1", "workloads", "{workloadId}", "pods", "{podId}", _] | [
                "api",
                "v1",
                "workloads",
                "inferences",
                "{workloadId}",
                "pods",
                "{podId}",
                _,
            ]:
                return {"workloadId": self.new_workload(), "podId": "master-0"}
            case ["api", "v1", "workloads", "inferences", "{workloadId}", _]:
                return {"workloadId": self.new_workload()}
            case ["api", "v1", "workloads", "{workloadType}", "{workloadId}"] if endpoint.method == "PATCH":
                kind = {"kind": "Deployment", "version": "v1"}
                made = self.lab.add_workload("vision", groupVersionKind=kind, entryPoint="dHJ1ZQ==")
                return {"workloadType": "inferences", "workloadId": made}
            case ["api", "v1", "workloads", "{workloadType}", "{workloadId}", *rest]:
                return {"workloadType": "workspaces", "workloadId": self.new_workload(stopped=rest == ["resume"])}
            case ["api", "v2", "workloads", "{workloadId}"]:
                return {"workloadId": self.new_workload()}
            case ["api", "workloads", "{uid}", *_]:
                return {"uid": self.new_workload()}
            case ["api", "v1", "workloads", "{workloadId}", *_]:
                return {"workloadId": self.new_workload()}
            case parts:
                assert not [part for part in parts if part.startswith("{")], f"say what {endpoint.path} is aimed at"
                return {}

    def good_fields(self) -> dict[str, Any]:
        """Values for fields that a generator does not guess, put where a body has such a field."""
        return {
            "name": self.new_name(),
            "password": PASSWORD,
            "displayName": self.new_name(),
            "workspaceId": "vision",
            "groupVersionKind": {"kind": "Authoring", "version": "v1"},
            "resource": {"cpu": "1", "memory": "1Gi", "replica": 1},
            **dict.fromkeys(("cpu", "gpu", "memory"), "1"),
            "entryPoint": "",
            "startAfter": None,
            "specifiedNodes": [],
            "dependencies": [],
            **self.place,
            "ids": [self.new_workload()],
            "spec": {"image": "python:3.11", "command": "true"},
            "url": HOOK,
            "workspace": None,
            "events": [],
            "secret": None,
            **dict.fromkeys(("templateId", "masterSpec", "masterSpecSameAsWorker")),
        }

    def new_name(self) -> str:
        return f"new-{next(self._numbers)}"

    def _workspace(self) -> str:
        return self._make("workspaces", {"name": self.new_name()})["name"]

    def new_workload(self, *, stopped: bool = False) -> str:
        made = self.lab.add_workload("vision", service={"port": 8080})
        if stopped:
            self.lab.post(f"{SAFE}/{made}/stop", as_="admin")
        return made

    def _make(self, what: str, body: dict[str, Any]) -> Any:
        made = self.lab.post(f"{V1}/{what}", as_="admin", json=body)
        assert made.status_code in (201, 409), made.text
        return made.json()

    def send(self, case: Case, caller: str) -> httpx.Response:
        """Send it as it was made; an admin sends its own credential instead of a made-up one."""
        made = case.as_transport_kwargs(base_url=BASE)
        known = ("method", "url", "headers", "params", "data", "json", "cookies")
        ready = requests.Request(**{name: made[name] for name in known if name in made}).prepare()
        headers = [
            (name, value if isinstance(value, str) else value.decode("latin-1"))
            for name, value in ready.headers.items()
            if name.lower() not in {"content-length", *(["authorization", "cookie"] if caller == "admin" else [])}
        ]
        if caller == "admin":
            headers.append(("Authorization", f"Bearer {self.lab.keys['admin']}"))
        content = ready.body or b""
        assert isinstance(content, bytes | str)
        assert ready.method is not None
        assert ready.url is not None
        return self.lab.request(ready.method, ready.url, headers=headers, content=content)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with Lab(tmp_path_factory.mktemp("conformance") / "data") as lab:
        yield Target(lab)


@pytest.fixture(scope="module")
def on_postgres(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with postgres_server.database() as url, Lab(tmp_path_factory.mktemp("conformance") / "data", url) as lab:
        yield Target(lab)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> Target:
    return request.getfixturevalue(f"on_{request.param}")


@pytest.mark.parametrize(("target", "caller"), EXAMPLES, indirect=["target"])
@pytest.mark.parametrize("endpoint", FINITE, ids=lambda each: f"{each.method} {each.path}")
def test_it_answers_as_its_document_says(target: Target, endpoint: Endpoint, caller: str) -> None:
    operation = target.operation(endpoint)
    statuses = set()

    @settings(
        max_examples=EXAMPLES[target.database, caller],
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data(), st.sampled_from(["aimed", "any", "wrong"]))
    def ask(data: st.DataObject, kind: str) -> None:
        if kind == "aimed":
            case = data.draw(operation.as_strategy(path_parameters=target.existing(endpoint)))
            if isinstance(case.body, dict):
                case.body |= {name: value for name, value in target.good_fields().items() if name in case.body}
                if "workloadIds" in case.body:
                    case.body["workloadIds"] = [target.new_workload()]
        else:
            mode = GenerationMode.POSITIVE if kind == "any" else GenerationMode.NEGATIVE
            case = data.draw(operation.as_strategy(mode))
        answer = target.send(case, caller)
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    ask()
    assert target.lab.get(f"{V1}/settings", as_="admin").status_code == 200, "the admin has done away with itself"
    if caller == "admin" and endpoint.path not in NOT_GUESSED:
        assert endpoint.status in statuses, f"nothing but {sorted(statuses)}: no request got through"


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_the_document_is_the_one_that_the_server_gives_out(target: Target) -> None:
    given_out = target.lab.get("/openapi.json")
    assert json.loads(given_out.content)["paths"].keys() == {endpoint.path for endpoint in ENDPOINTS}
