"""From method and path to an endpoint: a dictionary for fixed paths, a walk over segments for the others."""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from stoker.api.bodies import BodyDecoder, FormDecoder
from stoker.api.endpoint import Endpoint
from stoker.api.params import Decoder, decode_segment

_ANY = "{}"


class Route(Struct, frozen=True):
    """An endpoint with everything that can be prepared before a request comes."""

    endpoint: Endpoint
    decode_params: Decoder[Any]
    decode_body: Callable[[bytes], Any] | None
    names: tuple[str, ...]


Methods = dict[str, Route]


class Router:
    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._fixed: dict[bytes, Methods] = {}
        self._tree: dict[str, Any] = {}
        for endpoint in endpoints:
            methods = self._place(endpoint.path)
            if endpoint.method in methods:
                raise ValueError(f"{endpoint.method} {endpoint.path} is declared twice")
            methods[endpoint.method] = _prepared(endpoint)

    def find(self, raw_path: bytes) -> tuple[Methods, list[str]] | None:
        """The methods of a path, and the values of its variable segments, which may be empty. A fixed segment wins."""
        if (methods := self._fixed.get(raw_path)) is not None:
            return methods, []
        segments = [decode_segment(segment) for segment in raw_path.split(b"/")[1:]]
        if None in segments:
            return None
        values: list[str] = []
        found = _walk(self._tree, [segment for segment in segments if segment is not None], 0, values)
        return (found, values) if found is not None else None

    def _place(self, path: str) -> Methods:
        if "{" not in path:
            return self._fixed.setdefault(path.encode(), {})
        node = self._tree
        for segment in path.split("/")[1:]:
            node = node.setdefault(_ANY if segment.startswith("{") else segment, {})
        return node.setdefault("", {})


def _walk(node: dict[str, Any], segments: list[str], depth: int, values: list[str]) -> Methods | None:
    if depth == len(segments):
        return node.get("")
    if segments[depth] not in ("", _ANY) and (fixed := node.get(segments[depth])) is not None:
        found = _walk(fixed, segments, depth + 1, values)
        if found is not None:
            return found
    if (variable := node.get(_ANY)) is None:
        return None
    values.append(segments[depth])
    found = _walk(variable, segments, depth + 1, values)
    if found is None:
        values.pop()
    return found


def _prepared(endpoint: Endpoint) -> Route:
    names = tuple(part[1:-1] for part in endpoint.path.split("/") if part.startswith("{"))
    family = endpoint.family
    decoder = Decoder(endpoint.params, snake_twins=family.snake_twins, dotted_words=family.dotted_words)
    missing = set(names) - {field.wire for field in decoder.fields}
    if missing:
        raise ValueError(f"{endpoint.path}: {endpoint.params.__name__} lacks {', '.join(sorted(missing))}")
    return Route(endpoint, decoder, _body_decoder(endpoint), names)


def _body_decoder(endpoint: Endpoint) -> Callable[[bytes], Any] | None:
    if endpoint.body is None:
        return None
    return FormDecoder() if endpoint.form else BodyDecoder(endpoint.body, json_text=endpoint.family.json_text)
