"""Every endpoint, called with requests that its OpenAPI document allows and forbids, conforms to the document."""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, BaseSchema, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi import checks as conformance
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from tests.api.harness import MANAGEMENT_PATH, PASSWORD, V1, Harness
from tests.postgres import PostgresServer

from stoker.api.compat.runai.catalog import CATEGORY_ROWS, TYPE_ROWS
from stoker.api.exec_socket import EXEC_ENDPOINT
from stoker.api.http.endpoint import Endpoint
from stoker.api.http.families import FAMILIES, ApiFamily
from stoker.api.routes import ENDPOINTS

CHECKS = [
    not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
    conformance.response_headers_conformance,
    conformance.negative_data_rejection,
]
EXAMPLES = {("sqlite", "admin"): 16, ("sqlite", "anonymous"): 4, ("postgres", "admin"): 6}
MAX_AIMED_EXAMPLES = 100
"""Generated bodies are often rejected for what a schema cannot say. One of this many must get through."""
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
    f"{MANAGEMENT_PATH}/{{name}}/pods/{{podId}}/logs",
    f"{MANAGEMENT_PATH}/{{name}}/pods/{{podId}}/containers",
}
ON_EVERY_RESPONSE = {
    "Content-Type",
    "Content-Length",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "X-Frame-Options",
    "Content-Security-Policy",
}
pytestmark = pytest.mark.slow


class TargetInstallation:
    """A throw-away installation with one thing of each kind to aim at; what a request removes is put back."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.database = "postgres" if harness.settings.database else "sqlite"
        self.schema: BaseSchema = schemathesis.openapi.from_dict(harness.get("/openapi.json").json())
        self._numbers = itertools.count(1)
        harness.add_user("li", password=PASSWORD)
        harness.add_workspace("vision", member="li")
        vision = harness.get(f"{V1}/workspaces/vision", as_="admin").json()
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
                self.harness.put(f"{V1}/workspaces/target/members/li", as_="admin", json={"role": "viewer"})
                return {"name": "target", "user": "li"}
            case ["workspaces", "{name}", *_]:
                self._make("workspaces", {"name": "target"})
                return {"name": "target"}
            case ["keys", "{id}"]:
                return {"id": self._make("keys", {"name": "target"})["key"]["id"]}
            case ["applications", "{clientId}", *_]:
                return {"clientId": self._make("applications", {"name": self.new_name(), "admin": True})["clientId"]}
            case ["webhooks", "{id}", *rest]:
                made = self._make("webhooks", {"url": HOOK, "workspace": self._workspace()})["webhook"]["id"]
                if rest[:1] != ["deliveries"]:
                    return {"id": made}
                sent = self.harness.post(f"{V1}/webhooks/{made}/test", as_="admin").json()["number"]
                return {"id": made, **({"number": str(sent)} if len(rest) > 1 else {})}
            case ["clusters", "{name}", *_]:
                self._make("clusters", {"name": "target", "docker": {"url": "unix:///nowhere.sock"}})
                return {"name": "target"}
            case ["openapi", "{document}"]:
                return {"document": "native.json"}
            case ["docs", "{name}"]:
                return {"name": "start.js"}
            case ["workloads", "{name}", "resume"]:
                return {"name": self.new_workload(stopped=True)}
            case ["workloads", "{name}", "rollback"]:
                kind = {"kind": "Deployment", "version": "v1"}
                made = self.harness.add_workload("vision", groupVersionKind=kind, entryPoint="dHJ1ZQ==")
                self.harness.patch(f"{MANAGEMENT_PATH}/{made}", as_="admin", json={"env": {"V": "2"}})
                return {"name": made}
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
                pool, *_ = self.harness.get("/api/v1/node-pools", as_="admin").json()["nodepools"]
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
                made = self.harness.add_workload("vision", groupVersionKind=kind, entryPoint="dHJ1ZQ==")
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
            "admin": True,
            **dict.fromkeys(("templateId", "masterSpec", "masterSpecSameAsWorker")),
        }

    def new_name(self) -> str:
        return f"new-{next(self._numbers)}"

    def _workspace(self) -> str:
        return self._make("workspaces", {"name": self.new_name()})["name"]

    def new_workload(self, *, stopped: bool = False) -> str:
        made = self.harness.add_workload("vision", service={"port": 8080})
        if stopped:
            self.harness.post(f"{MANAGEMENT_PATH}/{made}/stop", as_="admin")
        return made

    def _make(self, what: str, body: dict[str, Any]) -> Any:
        made = self.harness.post(f"{V1}/{what}", as_="admin", json=body)
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
            headers.append(("Authorization", f"Bearer {self.harness.keys['admin']}"))
        content = ready.body or b""
        assert isinstance(content, bytes | str)
        assert ready.method is not None
        assert ready.url is not None
        return self.harness.request(ready.method, ready.url, headers=headers, content=content)


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TargetInstallation]:
    with Harness(tmp_path_factory.mktemp("conformance") / "data") as harness:
        yield TargetInstallation(harness)


@pytest.fixture(scope="module")
def on_postgres(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TargetInstallation]:
    with postgres_server.database() as url, Harness(tmp_path_factory.mktemp("conformance") / "data", url) as harness:
        yield TargetInstallation(harness)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> TargetInstallation:
    return request.getfixturevalue(f"on_{request.param}")


@pytest.mark.parametrize(("target", "caller"), EXAMPLES, indirect=["target"])
@pytest.mark.parametrize("endpoint", FINITE, ids=lambda each: f"{each.method} {each.path}")
def test_it_answers_as_its_document_says(target: TargetInstallation, endpoint: Endpoint, caller: str) -> None:
    operation = target.operation(endpoint)
    statuses = set()

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
        too_large = answer.status_code == 413  # a rejection too, which schemathesis does not count as one
        excused = {conformance.negative_data_rejection} if too_large or wrong_only_in_blank(case) else set()
        checks = [check for check in CHECKS if check not in excused]
        case.validate_response(answer, checks=checks)
        described = target.operation(endpoint).definition.raw["responses"][str(answer.status_code)]["headers"]
        assert {name.title() for name in answer.headers} <= {*ON_EVERY_RESPONSE, *(name.title() for name in described)}

    examples = EXAMPLES[target.database, caller]
    generate(ask, st.sampled_from(["aimed", "any", "wrong"]), examples)
    must_get_through = caller == "admin" and endpoint.path not in NOT_GUESSED
    if must_get_through and endpoint.status not in statuses:
        generate(ask, st.just("aimed"), MAX_AIMED_EXAMPLES)
    assert target.harness.get(f"{V1}/settings", as_="admin").status_code == 200, "the admin has done away with itself"
    if must_get_through:
        assert endpoint.status in statuses, f"nothing but {sorted(statuses)}: no request got through"


def generate(ask: Callable[[st.DataObject, str], None], kinds: st.SearchStrategy[str], examples: int) -> None:
    """Ask with generated requests of these kinds."""
    settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(given(st.data(), kinds)(ask))()


def wrong_only_in_blank(case: Case) -> bool:
    """Whether nothing but the query is wrong, and a parameter of it is empty: an empty parameter is absent."""
    assert case.meta is not None, "generated cases say how they were generated"
    query = dict(case.query or {}).values()
    wrong = [location for location, part in case.meta.components.items() if part.mode is GenerationMode.NEGATIVE]
    return wrong == [ParameterLocation.QUERY] and any(value in ("", [""]) for value in query)


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_the_document_is_the_one_that_the_server_gives_out(target: TargetInstallation) -> None:
    served = target.harness.get("/openapi.json").json()
    assert served["paths"].keys() == {endpoint.path for endpoint in (*ENDPOINTS, EXEC_ENDPOINT)}


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)
def test_a_family_serves_its_own_document(target: TargetInstallation, family: ApiFamily) -> None:
    answer = target.harness.get(f"/openapi/{family.name}.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    document = answer.json()
    assert OPENAPI_31_VALIDATOR.is_valid(document)
    for kind, name in re.findall(r'"#/components/(\w+)/([^"/]+)"', answer.text):
        assert name in document["components"][kind]
    whole = target.harness.get("/openapi.json").json()["paths"]
    rows = [row for row in (*ENDPOINTS, EXEC_ENDPOINT) if row.family is family]
    assert document["paths"].keys() == {row.path for row in rows}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation | {"tags": []} == whole[path][method] | {"tags": []}


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_other_documents_do_not_exist(target: TargetInstallation) -> None:
    for name in ("safe.json", "native", "native.yaml", ".json"):
        assert target.harness.get(f"/openapi/{name}").status_code == 404


@pytest.mark.parametrize("target", ["sqlite"], indirect=True)
def test_the_docs_page_offers_all_documents(target: TargetInstallation) -> None:
    script = target.harness.get("/docs/start.js").text
    assert re.findall(r'"url": "([^"]+)"', script) == [
        "/openapi.json",
        *(f"/openapi/{family.name}.json" for family in FAMILIES),
    ]
    assert target.harness.get("/docs/swagger-ui-standalone-preset.js").status_code == 200
