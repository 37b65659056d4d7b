"""Routing of a method and path to an endpoint: a dictionary for fixed paths, a tree of segments for the others.

A fixed segment takes precedence over a variable one.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from msgspec import Struct

from stoker.api.http.bodies import BodyDecoder, FormDecoder
from stoker.api.http.endpoint import Endpoint
from stoker.api.http.params import Params, ParamsDecoder, decode_segment

_WILDCARD = "{}"


class Route(Struct, frozen=True):
    """An endpoint with its compiled decoders."""

    endpoint: Endpoint
    decode_params: ParamsDecoder[Any]
    decode_body: Callable[[bytes], Any] | None
    param_names: tuple[str, ...]


RoutesByMethod = dict[str, Route]


class Router:
    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._static_paths: dict[bytes, RoutesByMethod] = {}
        self._tree: dict[str, Any] = {}
        for endpoint in endpoints:
            methods = self._methods_at(endpoint.path)
            if endpoint.method in methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
            methods[endpoint.method] = _build_route(endpoint)

    def find(self, raw_path: bytes) -> tuple[RoutesByMethod, list[str]] | None:
        """The methods of a path, and the values of its variable segments, which may be empty."""
        if (methods := self._static_paths.get(raw_path)) is not None:
            return methods, []
        segments = [decode_segment(segment) for segment in raw_path.split(b"/")[1:]]
        if None in segments:
            return None
        values: list[str] = []
        found = _match_segments(self._tree, [segment for segment in segments if segment is not None], 0, values)
        return (found, values) if found is not None else None

    def _methods_at(self, path: str) -> RoutesByMethod:
        if "{" not in path:
            return self._static_paths.setdefault(path.encode(), {})
        node = self._tree
        for segment in path.split("/")[1:]:
            node = node.setdefault(_WILDCARD if segment.startswith("{") else segment, {})
        return node.setdefault("", {})


def _match_segments(node: dict[str, Any], segments: list[str], depth: int, values: list[str]) -> RoutesByMethod | None:
    if depth == len(segments):
        return node.get("")
    if segments[depth] not in ("", _WILDCARD) and (fixed := node.get(segments[depth])) is not None:
        found = _match_segments(fixed, segments, depth + 1, values)
        if found is not None:
            return found
    if (variable := node.get(_WILDCARD)) is None:
        return None
    values.append(segments[depth])
    found = _match_segments(variable, segments, depth + 1, values)
    if found is None:
        values.pop()
    return found


def _build_route(endpoint: Endpoint) -> Route:
    names = tuple(part[1:-1] for part in endpoint.path.split("/") if part.startswith("{"))
    family = endpoint.family
    decoder = _params_decoder(endpoint.params, family.accept_snake_case, family.accept_dotted_enums)
    missing = set(names) - {field.wire_name for field in decoder.fields}
    if missing:
        raise ValueError(f"{endpoint.path}: {endpoint.params.__name__} lacks {', '.join(sorted(missing))}")
    return Route(endpoint, decoder, _body_decoder(endpoint), names)


def _body_decoder(endpoint: Endpoint) -> Callable[[bytes], Any] | None:
    if endpoint.body is None:
        return None
    if endpoint.form:
        return FormDecoder()
    return _json_decoder(endpoint.body, endpoint.family.accept_json_string)


@cache
def _params_decoder(params: type[Params], accept_snake_case: bool, accept_dotted_enums: bool) -> ParamsDecoder[Any]:
    """Endpoints with the same parameters share a decoder: it is compiled once and has no state."""
    return ParamsDecoder(params, accept_snake_case=accept_snake_case, accept_dotted_enums=accept_dotted_enums)


@cache
def _json_decoder(body: Any, accept_json_string: bool) -> BodyDecoder:
    return BodyDecoder(body, accept_json_string=accept_json_string)
