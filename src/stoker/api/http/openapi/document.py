"""The OpenAPI 3.1 document, from the table alone."""

import http
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import Struct

from stoker import __version__
from stoker.api.callers import COOKIE
from stoker.api.endpoint import Endpoint
from stoker.api.families import STATUS, Family
from stoker.api.params import Params
from stoker.domain.errors import ErrorCode
from stoker.domain.permissions import RULES, Who

REF = "#/components/schemas/{name}"
_EVERYWHERE = (ErrorCode.BAD_REQUEST, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.INTERNAL, ErrorCode.BACKEND_DOWN)
_IDEMPOTENCY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same body gives the same answer; with another body it is a 409.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_TRACE = {"X-Trace-Id": {"description": "Names this request in the server's log.", "schema": {"type": "string"}}}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    rows = list(endpoints)
    components: dict[str, Any] = {}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in rows:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, components)
    families = {endpoint.family.name: endpoint.family for endpoint in rows}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stoker",
            "version": __version__,
            "description": "Runs GPU workloads and shows what the GPUs really do.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": family.name, "description": family.title} for family in families.values()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "An API key (sk-stoker-…) or a token."},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
    }


def _operation(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{endpoint.family.name}.{endpoint.name}",
        "tags": [endpoint.family.name],
        "summary": endpoint.summary,
        "description": endpoint.description,
        "parameters": _parameters(endpoint, components),
        "responses": _responses(endpoint, components),
        "security": _security(endpoint),
    }
    if endpoint.body is not None:
        content: dict[str, Any] = {"schema": _schema(endpoint.body, components)}
        if endpoint.body_example is not None:
            content["example"] = endpoint.body_example
        media_type = "application/x-www-form-urlencoded" if endpoint.form else "application/json"
        operation["requestBody"] = {"required": True, "content": {media_type: content}}
    return operation


def _parameters(endpoint: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    in_path = {part[1:-1] for part in endpoint.path.split("/") if part.startswith("{")}
    hints = get_type_hints(endpoint.params, include_extras=True)
    described = []
    for field in msgspec.structs.fields(endpoint.params):
        schema = _schema(hints[field.name], components)
        if not field.required and field.default not in (None, "", ()):
            schema = {**schema, "default": msgspec.to_builtins(field.default)}
        where = "path" if field.encode_name in in_path else "query"
        parameter = {"name": field.encode_name, "in": where, "required": field.required, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema["description"]
        if schema.get("type") == "array":
            parameter |= {"style": "form", "explode": False}
        described.append(parameter)
    return [*described, _IDEMPOTENCY] if endpoint.creates else described


def _responses(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": http.HTTPStatus(endpoint.status).phrase, "headers": _TRACE}
    if endpoint.status != 204:
        success["content"] = {endpoint.media_type: _success_content(endpoint, components)}
        success["content"] |= {form: {"schema": {"type": "string"}} for form in endpoint.also}
    responses = {str(endpoint.status): success}
    failure = endpoint.family.failure_type
    if endpoint.failure is not None:
        failure = failure | endpoint.failure
    if endpoint.partly is not None:
        responses["207"] = _response("some could not be done", endpoint.partly, components)
        failure = failure | endpoint.partly
    for status, codes in sorted(_errors(endpoint).items()):
        said = "; ".join(code.value.replace("_", " ") for code in codes)
        responses[str(status)] = _response(said, failure, components)
    return responses


def _response(description: str, kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": _schema(kind, components)}}
    return {"description": description, "headers": _TRACE, "content": content}


def _success_content(endpoint: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    if endpoint.media_type != "application/json":
        return {"schema": {"type": "string"}}
    schema = _wrapped(endpoint.family, _schema(endpoint.result, components))
    return {"schema": schema, **({"example": endpoint.example} if endpoint.example is not None else {})}


def _wrapped(family: Family, schema: dict[str, Any]) -> dict[str, Any]:
    if family.envelope is None:
        return schema
    kinds: dict[str, Any] = {key: {"const": value} for key, value in family.envelope.items()}
    kinds |= {"data": schema} | ({"traceId": {"type": "string"}} if "traceId" in kinds else {})
    return {"type": "object", "properties": kinds, "required": list(kinds)}


def _errors(endpoint: Endpoint) -> dict[int, list[ErrorCode]]:
    codes = {*_EVERYWHERE, *endpoint.errors}
    if RULES[endpoint.action].who is not Who.ANYONE:
        codes |= {ErrorCode.NOT_SIGNED_IN, ErrorCode.NOT_ALLOWED}
    if "{" in endpoint.path:
        codes.add(ErrorCode.NOT_FOUND)
    if endpoint.body is not None:
        codes.add(ErrorCode.TOO_LARGE)
    if endpoint.creates:
        codes.add(ErrorCode.EXISTS)
    if issubclass(endpoint.params, Params) and {"user", "workspace"} & set(endpoint.params.__struct_fields__):
        codes.add(ErrorCode.NOT_FOUND)
    by_status: dict[int, list[ErrorCode]] = {}
    for code in sorted(codes):
        by_status.setdefault(STATUS[code], []).append(code)
    return by_status


def _security(endpoint: Endpoint) -> list[dict[str, list[str]]]:
    who = RULES[endpoint.action].who
    if who is Who.ANYONE:
        return []
    signed: list[dict[str, list[str]]] = [{"bearer": []}, {"session": []}]
    return [{}, *signed] if who is Who.MONITOR else signed


def _schema(kind: Any, components: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type; the structs it uses go to the components."""
    if isinstance(kind, UnionType) and all(
        isinstance(each, type) and issubclass(each, Struct) for each in get_args(kind)
    ):
        return {"anyOf": [_schema(each, components) for each in get_args(kind)]}
    (schema,), found = msgspec.json.schema_components([kind], schema_hook=_unknown, ref_template=REF)
    for name, each in found.items():
        if components.setdefault(name, each) != each:
            raise ValueError(f"two structs are called {name}; one would be described by the other")
    return schema


def _unknown(kind: type) -> dict[str, Any]:
    raise NotImplementedError(f"{kind} has no schema; results and bodies are {Struct.__name__}s")
