"""An OpenAPI document: its head, tags, paths and components.

Every family document is part of the whole: the same operations and schemas. Only tags differ, which in the whole are
preceded by the family.
"""

from collections.abc import Iterable
from typing import Any

from stoker import __version__
from stoker.api.http.auth import CSRF_HEADER, SESSION_COOKIE
from stoker.api.http.endpoint import Endpoint, WebSocketEndpoint
from stoker.api.http.families import FAMILIES, ApiFamily
from stoker.api.http.openapi.headers import describe_headers
from stoker.api.http.openapi.operations import describe_endpoint, describe_socket
from stoker.api.http.openapi.schemas import SchemaComponents
from stoker.api.http.resources import find_resource

ABOUT = (
    "Runs GPU workloads and measures how they use their GPUs.\n\n"
    "Every response has the headers `X-Trace-Id`, `X-Content-Type-Options`, `Referrer-Policy`, `X-Frame-Options` and "
    "`Content-Security-Policy`. Requests with a browser session that change something need the header `X-CSRF-Token`. "
    "An unknown path is a 404, a method that a path does not have is a 405 with the header `Allow`, request headers "
    "over the size limit are a 431, all in the error format of the family."
)
OTHER = "other"
"""The tag of a path that belongs to no resource."""


def build_document(
    endpoints: Iterable[Endpoint], sockets: Iterable[WebSocketEndpoint] = (), *, family: ApiFamily | None = None
) -> dict[str, Any]:
    """The document of one family, or of the whole API."""
    components = SchemaComponents()
    paths: dict[str, dict[str, Any]] = {}
    tags: set[str] = set()
    families = FAMILIES if family is None else (family,)
    for row in (*endpoints, *sockets):
        if row.family not in families:
            continue
        tag = _tag(row.family, _resource_name(row), qualified=family is None)
        tags.add(tag)
        described = (
            describe_endpoint(row, tag, components)
            if isinstance(row, Endpoint)
            else describe_socket(row, tag, components)
        )
        paths.setdefault(row.path, {})[row.method.lower()] = described
    groups = [(each.name, _tags_of(each, tags, qualified=family is None)) for each in families]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stoker" if family is None else f"Stoker {family.name} API",
            "version": __version__,
            "description": ABOUT if family is None else f"{family.title}.\n\n{ABOUT}",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [tag for _, group in groups for tag in group],
        "x-tagGroups": [{"name": name, "tags": [tag["name"] for tag in group]} for name, group in groups if group],
        "paths": paths,
        "components": {
            "schemas": components.sorted(),
            "headers": describe_headers(),
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key (sk-stoker-…) or the token of an application.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": SESSION_COOKIE,
                    "description": f"A browser session; writes also need the header {CSRF_HEADER}.",
                },
            },
        },
    }


def _resource_name(row: Endpoint | WebSocketEndpoint) -> str:
    resource = find_resource(row.family.resources, row.path)
    return OTHER if resource is None else resource.name


def _tag(family: ApiFamily, resource: str, *, qualified: bool) -> str:
    return f"{family.name} {resource}" if qualified else resource


def _tags_of(family: ApiFamily, used: set[str], *, qualified: bool) -> list[dict[str, str]]:
    described = [(resource.name, resource.description) for resource in family.resources]
    return [
        {"name": tag, "description": f"{description} (family {family.name})"}
        for name, description in (*described, (OTHER, "Other operations."))
        if (tag := _tag(family, name, qualified=qualified)) in used
    ]
