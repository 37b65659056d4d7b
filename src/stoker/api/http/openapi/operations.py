"""Operations of an OpenAPI document: parameters, bodies, responses, event streams and WebSockets."""

import http
from typing import Any, get_type_hints

import msgspec
from msgspec import inspect as mi

from stoker.api.http.endpoint import Endpoint, WebSocketEndpoint
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import ApiFamily
from stoker.api.http.negotiation import JSON_MEDIA_TYPE
from stoker.api.http.openapi.headers import error_headers, refer_to_headers
from stoker.api.http.openapi.schemas import SchemaComponents
from stoker.api.http.params import Params, splits_commas
from stoker.api.http.sse import SSE_MEDIA_TYPE
from stoker.domain.access.permissions import RULES, AccessLevel, Action
from stoker.domain.errors import ErrorCode

_COMMON_ERRORS = (ErrorCode.BAD_REQUEST, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.INTERNAL, ErrorCode.UNAVAILABLE)
_IDEMPOTENCY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A repeated key with the same body returns the first response for 24 hours; with another body it "
    "is a 409.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_LAST_EVENT_PARAMETER = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Continue after this event; browsers send it when they reconnect. It has precedence over `after`.",
    "schema": {"type": "string"},
}
_SECURED: list[dict[str, list[str]]] = [{"bearer": []}, {"session": []}]


def describe_endpoint(endpoint: Endpoint, tag: str, components: SchemaComponents) -> dict[str, Any]:
    parameters = _parameters(endpoint.path, endpoint.params, components)
    if endpoint.idempotent:
        parameters.append(_IDEMPOTENCY_PARAMETER)
    if endpoint.media_type == SSE_MEDIA_TYPE:
        parameters.append(_LAST_EVENT_PARAMETER)
    operation = _operation(endpoint, tag, parameters) | {"responses": _responses(endpoint, components)}
    if endpoint.body is not None:
        content: dict[str, Any] = {"schema": components.schema(endpoint.body)}
        if endpoint.body_example is not None:
            content["example"] = endpoint.body_example
        media_type = "application/x-www-form-urlencoded" if endpoint.form else JSON_MEDIA_TYPE
        operation["requestBody"] = {"required": True, "content": {media_type: content}}
    return operation


def describe_socket(socket: WebSocketEndpoint, tag: str, components: SchemaComponents) -> dict[str, Any]:
    """OpenAPI has no WebSockets: the handshake is a GET that answers 101, and an extension describes the frames."""
    codes = {ErrorCode.BAD_REQUEST, ErrorCode.NOT_FOUND, ErrorCode.UNAUTHENTICATED, ErrorCode.FORBIDDEN, *socket.errors}
    responses: dict[str, Any] = {
        "101": {"description": http.HTTPStatus(101).phrase, "headers": refer_to_headers()},
        **_error_responses(codes, socket.family.error_type, components),
    }
    frames = [
        {
            "from": frame.sender,
            "opcode": frame.opcode,
            "description": frame.description,
            **({"schema": components.schema(frame.data)} if frame.data is not None else {}),
        }
        for frame in socket.frames
    ]
    parameters = _parameters(socket.path, socket.params, components)
    return _operation(socket, tag, parameters) | {"responses": responses, "x-websocket": {"frames": frames}}


def _operation(row: Endpoint | WebSocketEndpoint, tag: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "operationId": f"{row.family.name}.{row.name}",
        "tags": [tag],
        "summary": row.summary,
        "description": row.description,
        "parameters": parameters,
        "security": _security(row.action),
    }


def _parameters(path: str, params: type[Params], components: SchemaComponents) -> list[dict[str, Any]]:
    in_path = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    hints = get_type_hints(params, include_extras=True)
    described = []
    for field in msgspec.structs.fields(params):
        schema = components.schema(hints[field.name])
        if not field.required and field.default not in (None, "", ()):
            schema = {**schema, "default": msgspec.to_builtins(field.default)}
        where = "path" if field.encode_name in in_path else "query"
        parameter = {"name": field.encode_name, "in": where, "required": field.required, "schema": schema}
        if "description" in schema:
            parameter["description"] = schema["description"]
        if schema.get("type") == "array":
            parameter |= {"style": "form", "explode": not splits_commas(mi.type_info(hints[field.name]))}
        described.append(parameter)
    return described


def _responses(endpoint: Endpoint, components: SchemaComponents) -> dict[str, Any]:
    success: dict[str, Any] = {
        "description": http.HTTPStatus(endpoint.status).phrase,
        "headers": refer_to_headers(*endpoint.response_headers),
    }
    if endpoint.status != 204:
        media_types = (endpoint.media_type, *endpoint.alt_media_types)
        success["content"] = {media: _content(endpoint, media, components) for media in media_types}
    responses = {str(endpoint.status): success}
    error_type = endpoint.family.error_type
    if endpoint.error_schema is not None:
        error_type = error_type | endpoint.error_schema
    if endpoint.multi_status is not None:
        responses["207"] = _response("Some of the operations failed", endpoint.multi_status, components) | {
            "headers": refer_to_headers(*endpoint.response_headers)
        }
        error_type = error_type | endpoint.multi_status
    if endpoint.redirects:
        responses["307"] = {
            "description": "Redirect of a browser",
            "headers": refer_to_headers("Location", "Vary"),
        }
    own_errors = endpoint.multi_status is not None or endpoint.error_schema is not None
    headers = endpoint.response_headers if own_errors else ()
    return responses | _error_responses(_error_codes(endpoint), error_type, components, headers)


def _error_responses(
    codes: set[ErrorCode], error_type: Any, components: SchemaComponents, headers: tuple[str, ...] = ()
) -> dict[str, Any]:
    by_status: dict[int, list[ErrorCode]] = {}
    for code in sorted(codes):
        by_status.setdefault(HTTP_STATUS[code], []).append(code)
    return {
        str(status): _response(f"{http.HTTPStatus(status).phrase} ({', '.join(found)})", error_type, components)
        | {"headers": error_headers(found, *headers)}
        for status, found in sorted(by_status.items())
    }


def _response(description: str, kind: Any, components: SchemaComponents) -> dict[str, Any]:
    return {"description": description, "content": {JSON_MEDIA_TYPE: {"schema": components.schema(kind)}}}


def _content(endpoint: Endpoint, media_type: str, components: SchemaComponents) -> dict[str, Any]:
    if media_type == SSE_MEDIA_TYPE:
        return {"schema": {"type": "string"}, "x-server-sent-events": _events(endpoint, components)}
    if media_type != JSON_MEDIA_TYPE:
        return {"schema": {"type": "string"}}
    schema = _wrap_in_envelope(endpoint.family, components.schema(endpoint.result))
    return {"schema": schema, **({"example": endpoint.example} if endpoint.example is not None else {})}


def _events(endpoint: Endpoint, components: SchemaComponents) -> list[dict[str, Any]]:
    return [
        {"event": event.name, "description": event.description, "data": components.schema(event.data)}
        for event in endpoint.events
    ]


def _wrap_in_envelope(family: ApiFamily, schema: dict[str, Any]) -> dict[str, Any]:
    if family.envelope is None:
        return schema
    properties: dict[str, Any] = {key: {"const": value} for key, value in family.envelope.items()}
    properties |= {"data": schema} | ({"traceId": {"type": "string"}} if "traceId" in properties else {})
    return {"type": "object", "properties": properties, "required": list(properties)}


def _error_codes(endpoint: Endpoint) -> set[ErrorCode]:
    codes = {*_COMMON_ERRORS, *endpoint.errors}
    if RULES[endpoint.action].level is not AccessLevel.ANYONE:
        codes |= {ErrorCode.UNAUTHENTICATED, ErrorCode.FORBIDDEN}
    if "{" in endpoint.path:
        codes.add(ErrorCode.NOT_FOUND)
    if endpoint.body is not None:
        codes.add(ErrorCode.TOO_LARGE)
    if endpoint.idempotent:
        codes.add(ErrorCode.ALREADY_EXISTS)
    if {"user", "workspace"} & set(endpoint.params.__struct_fields__):
        codes.add(ErrorCode.NOT_FOUND)
    return codes


def _security(action: Action) -> list[dict[str, list[str]]]:
    level = RULES[action].level
    if level is AccessLevel.ANYONE:
        return []
    return [{}, *_SECURED] if level is AccessLevel.MONITOR else _SECURED
