"""The OpenAPI document: valid, complete, and true to the table it is made from."""

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from stoker.api.endpoint import Endpoint
from stoker.api.families import AGGREGATION, LENS, NATIVE, RUNAI, SAFE, STATUS, encode
from stoker.api.openapi import document
from stoker.api.routing import Router
from stoker.api.table import ENDPOINTS
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.permissions import RULES, Who

EVERYWHERE = {"400", "429", "500", "503"}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
each_endpoint = pytest.mark.parametrize("declared", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")


@functools.cache
def _document() -> dict[str, Any]:
    return json.loads(encode(document(ENDPOINTS)))


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
    assert found == {(each.method, each.path) for each in ENDPOINTS}


def test_operation_ids_are_unique_and_tell_the_family() -> None:
    ids = [operation["operationId"] for operation in _operations()]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"(safe|lens|aggregation|runai|native)\.[a-z_]+", each) for each in ids)


def test_the_head_of_the_document_says_what_it_is() -> None:
    found = _document()
    assert (found["openapi"], found["info"]["title"]) == ("3.1.0", "Stoker")
    assert {tag["name"] for tag in found["tags"]} == {each.family.name for each in ENDPOINTS}
    assert {tag for operation in _operations() for tag in operation["tags"]} <= {tag["name"] for tag in found["tags"]}


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
    assert operation["tags"] == [declared.family.name]


@each_endpoint
def test_its_parameters_are_those_of_the_path_and_the_struct(declared: Endpoint) -> None:
    parameters = _operation(declared)["parameters"]
    in_path = [each["name"] for each in parameters if each["in"] == "path"]
    assert sorted(in_path) == sorted(re.findall(r"\{(\w+)\}", declared.path))
    assert all(each["required"] for each in parameters if each["in"] == "path")
    found = Router([declared]).find(declared.path.replace("{", "").replace("}", "").encode())
    assert found is not None
    wired = {field.wire for field in found[0][declared.method].decode_params.fields}
    assert {each["name"] for each in parameters if each["in"] != "header"} == wired
    assert any(each["name"] == "Idempotency-Key" for each in parameters) == declared.creates


@each_endpoint
def test_it_lists_every_status_it_can_answer(declared: Endpoint) -> None:
    responses = set(_operation(declared)["responses"])
    expected = {str(declared.status), *EVERYWHERE}
    if RULES[declared.action].who is not Who.ANYONE:
        expected |= {"401", "403"}
    if "{" in declared.path:
        expected.add("404")
    if declared.body is not None:
        expected.add("413")
    if declared.creates:
        expected.add("409")
    expected |= {str(STATUS[code]) for code in declared.errors}
    if declared.partly is not None:
        expected.add("207")
    assert expected <= responses
    assert responses - expected <= {"404"}


@each_endpoint
def test_its_errors_are_in_the_words_of_its_family(declared: Endpoint) -> None:
    responses = _operation(declared)["responses"]
    for code in ErrorCode:
        response = responses.get(str(STATUS[code]))
        if response is None or STATUS[code] == declared.status:
            continue
        assert response["headers"].keys() == {"X-Trace-Id"}
        body = declared.family.failure(StokerError(code, "message", hint="hint", field="field"), STATUS[code], "0" * 32)
        _validator(response["content"]["application/json"]["schema"]).validate(json.loads(encode(body)))


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
        decode(encode(declared.body_example))


@each_endpoint
def test_who_needs_a_credential_is_told_so(declared: Endpoint) -> None:
    security = _operation(declared)["security"]
    match RULES[declared.action].who:
        case Who.ANYONE:
            assert security == []
        case Who.MONITOR:
            assert security == [{}, {"bearer": []}, {"session": []}]
        case _:
            assert security == [{"bearer": []}, {"session": []}]


@pytest.mark.parametrize("family", [SAFE, LENS, AGGREGATION, RUNAI, NATIVE], ids=lambda each: each.name)
def test_every_code_has_a_status_and_words_in_every_family(family: Any) -> None:
    assert set(STATUS) == set(ErrorCode)
    for code in ErrorCode:
        body = json.loads(encode(family.failure(StokerError(code, "What happened."), STATUS[code], "0" * 32)))
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
