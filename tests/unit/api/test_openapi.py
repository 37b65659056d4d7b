"""The OpenAPI documents: valid, complete, and true to the table they are derived from."""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from stoker.api.exec_socket import EXEC_ENDPOINT
from stoker.api.http.endpoint import Endpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import FAMILIES, ApiFamily, encode_json
from stoker.api.http.openapi import build_document
from stoker.api.http.resources import find_resource
from stoker.api.http.routing import Router
from stoker.api.routes import ENDPOINTS
from stoker.domain.access.permission_rules import RULES, AccessLevel
from stoker.domain.errors import ErrorCode, StokerError

EVERYWHERE = {"400", "429", "500", "503"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
each_endpoint = pytest.mark.parametrize("declared", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")


SOCKETS = (EXEC_ENDPOINT,)
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda each: each.name)


def _document(family: ApiFamily | None = None) -> dict[str, Any]:
    return _documents()["" if family is None else family.name]


@functools.cache
def _documents() -> dict[str, dict[str, Any]]:
    built = {family.name: build_document(ENDPOINTS, SOCKETS, family=family) for family in FAMILIES}
    return json.loads(encode_json(built | {"": build_document(ENDPOINTS, SOCKETS)}))


def _without_tags(document: dict[str, Any]) -> dict[str, Any]:
    return {
        path: {method: operation | {"tags": []} for method, operation in operations.items()}
        for path, operations in document["paths"].items()
    }


def _operation(declared: Endpoint) -> dict[str, Any]:
    return _document()["paths"][declared.path][declared.method.lower()]


def _operations() -> Iterator[dict[str, Any]]:
    for path in _document()["paths"].values():
        yield from path.values()


def _validator(schema: dict[str, Any]) -> Any:
    whole = {"$schema": DIALECT, "components": _document()["components"], **schema}
    return jsonschema_rs.validator_for(whole)


def _schemas(value: Any) -> Iterator[dict[str, Any]]:
    """Every schema that lies anywhere in the document."""
    if isinstance(value, dict):
        if isinstance(schema := value.get("schema"), dict):
            yield schema
        for each in value.values():
            yield from _schemas(each)
    elif isinstance(value, list):
        for each in value:
            yield from _schemas(each)


def test_every_endpoint_is_in_it_and_nothing_else() -> None:
    found = {(method.upper(), path) for path, operations in _document()["paths"].items() for method in operations}
    assert found == {(each.method, each.path) for each in (*ENDPOINTS, *SOCKETS)}


def test_operation_ids_are_unique_and_tell_the_family() -> None:
    ids = [operation["operationId"] for operation in _operations()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"(management|monitoring|aggregation|runai|native)\.[a-z_]+", each) for each in ids)


def test_the_head_of_the_document_says_what_it_is() -> None:
    found = _document()
    assert (found["openapi"], found["info"]["title"]) == ("3.1.0", "Stoker")
    tags = [tag["name"] for tag in found["tags"]]
    assert len(set(tags)) == len(tags)
    assert {tag for operation in _operations() for tag in operation["tags"]} == set(tags)
    assert [group["name"] for group in found["x-tagGroups"]] == [family.name for family in FAMILIES]
    assert [tag for group in found["x-tagGroups"] for tag in group["tags"]] == tags


def test_every_schema_is_one() -> None:
    schemas = [*_schemas(_document()), *_document()["components"]["schemas"].values()]
    for schema in schemas:
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})


def test_every_reference_leads_somewhere() -> None:
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(_document())))
    assert names == set(_document()["components"]["schemas"])


@each_endpoint
def test_an_operation_says_what_it_does(declared: Endpoint) -> None:
    operation = _operation(declared)
    assert operation["summary"].endswith(".")
    resource = find_resource(declared.family.resources, declared.path)
    assert resource is not None
    assert operation["tags"] == [f"{declared.family.name} {resource.name}"]


@each_endpoint
def test_its_parameters_are_those_of_the_path_and_the_struct(declared: Endpoint) -> None:
    parameters = _operation(declared)["parameters"]
    in_path = [each["name"] for each in parameters if each["in"] == "path"]
    assert sorted(in_path) == sorted(re.findall(r"\{(\w+)\}", declared.path))
    assert all(each["required"] for each in parameters if each["in"] == "path")
    found = Router([declared]).find(declared.path.replace("{", "").replace("}", "").encode())
    assert found is not None
    wired = {field.wire_name for field in found[0][declared.method].decode_params.fields}
    assert {each["name"] for each in parameters if each["in"] != "header"} == wired
    assert any(each["name"] == "Idempotency-Key" for each in parameters) == declared.idempotent


@each_endpoint
def test_it_lists_every_status_it_can_answer(declared: Endpoint) -> None:
    responses = set(_operation(declared)["responses"])
    expected = {str(declared.status), *EVERYWHERE}
    if RULES[declared.action].level is not AccessLevel.ANYONE:
        expected |= {"401", "403"}
    if "{" in declared.path:
        expected.add("404")
    if declared.body is not None:
        expected.add("413")
    if declared.idempotent:
        expected.add("409")
    expected |= {str(HTTP_STATUS[code]) for code in declared.errors}
    if declared.multi_status is not None:
        expected.add("207")
    assert expected <= responses
    if declared.redirects:
        expected.add("307")
    assert responses - expected <= {"404"}


@each_endpoint
def test_its_errors_are_in_the_words_of_its_family(declared: Endpoint) -> None:
    responses = _operation(declared)["responses"]
    for code in ErrorCode:
        response = responses.get(str(HTTP_STATUS[code]))
        if response is None or HTTP_STATUS[code] == declared.status:
            continue
        expected = {401: {"WWW-Authenticate"}, 429: {"Retry-After"}, 503: {"Retry-After"}}.get(HTTP_STATUS[code], set())
        if declared.multi_status is not None or declared.error_schema is not None:
            expected = {*expected, *declared.response_headers}
        assert response["headers"].keys() == {"X-Trace-Id", *expected}
        body = declared.family.to_error(
            StokerError(code, "message", hint="hint", field="field"), HTTP_STATUS[code], "0" * 32
        )
        _validator(response["content"]["application/json"]["schema"]).validate(json.loads(encode_json(body)))


@each_endpoint
def test_its_examples_fit_its_schemas(declared: Endpoint) -> None:
    operation = _operation(declared)
    contents = [response.get("content", {}) for response in operation["responses"].values()]
    contents.append(operation.get("requestBody", {}).get("content", {}))
    for content in contents:
        for media in content.values():
            if "example" in media:
                _validator(media["schema"]).validate(media["example"])


@each_endpoint
def test_a_body_example_is_taken_by_the_endpoint_itself(declared: Endpoint) -> None:
    if declared.body_example is not None:
        found = Router([declared]).find(declared.path.replace("{", "").replace("}", "").encode())
        assert found is not None
        decode = found[0][declared.method].decode_body
        assert decode is not None
        decode(encode_json(declared.body_example))


@each_endpoint
def test_who_needs_a_credential_is_told_so(declared: Endpoint) -> None:
    security = _operation(declared)["security"]
    match RULES[declared.action].level:
        case AccessLevel.ANYONE:
            assert security == []
        case AccessLevel.MONITOR:
            assert security == [{}, {"bearer": []}, {"session": []}]
        case _:
            assert security == [{"bearer": []}, {"session": []}]


@each_family
def test_the_document_of_a_family_is_complete_in_itself(family: ApiFamily) -> None:
    document = _document(family)
    assert OPENAPI_31_VALIDATOR.is_valid(document)
    schemas = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert schemas == set(document["components"]["schemas"])
    references = re.findall(r'"#/components/([^"]+)/([^"/]+)"', json.dumps(document))
    assert all(name in document["components"][kind] for kind, name in references)
    assert document["info"]["title"] == f"Stoker {family.name} API"


@each_family
def test_operations_of_a_family_are_tagged_by_resource(family: ApiFamily) -> None:
    document = _document(family)
    used = {tag for path in document["paths"].values() for operation in path.values() for tag in operation["tags"]}
    assert used == {tag["name"] for tag in document["tags"]} == {resource.name for resource in family.resources}
    assert document["x-tagGroups"] == [{"name": family.name, "tags": [tag["name"] for tag in document["tags"]]}]


def test_the_families_together_are_the_whole() -> None:
    whole = _document()
    assert OPENAPI_31_VALIDATOR.is_valid(whole)
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for family in FAMILIES:
        found = _without_tags(_document(family))
        assert not paths.keys() & found.keys()
        paths |= found
        schemas |= _document(family)["components"]["schemas"]
    assert paths == _without_tags(whole)
    assert schemas == whole["components"]["schemas"]


def test_event_streams_name_their_events_and_data() -> None:
    for declared in ENDPOINTS:
        content = _operation(declared)["responses"][str(declared.status)].get("content", {})
        if (stream := content.get("text/event-stream")) is not None:
            assert stream["x-server-sent-events"]
            assert [event["event"] for event in stream["x-server-sent-events"]][-1] == "error"
    events = _document()["paths"]["/api/stoker/v1/events"]["get"]
    names = [
        event["event"] for event in events["responses"]["200"]["content"]["text/event-stream"]["x-server-sent-events"]
    ]
    assert names == ["created", "phase", "changed", "error"]
    assert "Last-Event-ID" in {each["name"] for each in events["parameters"]}


def test_the_exec_socket_describes_its_parameters_and_frames() -> None:
    operation = _document()["paths"]["/api/stoker/v1/workloads/{name}/exec"]["get"]
    parameters = {each["name"]: each for each in operation["parameters"]}
    assert list(parameters) == ["name", "pod", "tty", "stderr", "columns", "rows", "command"]
    assert (parameters["command"]["required"], parameters["command"]["explode"]) == (True, True)
    assert {"101", "400", "401", "403", "404", "409", "429", "503"} == set(operation["responses"])
    frames = [(each["from"], each["opcode"]) for each in operation["x-websocket"]["frames"]]
    assert set(frames) == {("client", "binary"), ("client", "text"), ("server", "binary"), ("server", "text")}


@each_endpoint
def test_its_headers_are_described(declared: Endpoint) -> None:
    found = _operation(declared)["responses"][str(declared.status)]["headers"]
    assert found.keys() == {"X-Trace-Id", *declared.response_headers}


@each_family
def test_every_code_has_a_status_and_words_in_every_family(family: Any) -> None:
    assert set(HTTP_STATUS) == set(ErrorCode)
    for code in ErrorCode:
        body = json.loads(
            encode_json(family.to_error(StokerError(code, "What happened."), HTTP_STATUS[code], "0" * 32))
        )
        assert "What happened." in json.dumps(body)
        assert "null" not in json.dumps(body)


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _nodes(each)
    if isinstance(value, dict):
        yield value


def test_every_pattern_is_said_in_words_too() -> None:
    patterns = [node for node in _nodes(_document()) if isinstance(node.get("pattern"), str)]
    assert patterns
    assert [node["pattern"] for node in patterns if not node.get("description")] == []
