"""Routing: from a raw path to the methods it has and the values of its variable segments."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.http.endpoint import Call, Endpoint, endpoint
from stoker.api.http.families import NATIVE
from stoker.api.http.params import NoParams, Params
from stoker.api.http.routing import Router
from stoker.api.routes import ENDPOINTS
from stoker.domain.access.permission_rules import Action


class OneSegment(Params, frozen=True, kw_only=True, rename="camel"):
    work_id: str


class TwoSegments(Params, frozen=True, kw_only=True):
    a: str
    b: str


def _endpoint(method: str, path: str, params: type[Params] = NoParams) -> Endpoint:
    @endpoint(method, path, family=NATIVE, action=Action.PUBLIC, params=params)
    async def handler(call: Call[Any]) -> None:
        """Does nothing."""

    return handler


ROUTER = Router(
    [
        _endpoint("GET", "/work"),
        _endpoint("POST", "/work"),
        _endpoint("GET", "/work/{workId}", OneSegment),
        _endpoint("GET", "/work/latest"),
        _endpoint("POST", "/work/{workId}/stop", OneSegment),
        _endpoint("GET", "/work/latest/{workId}", OneSegment),
        _endpoint("GET", "/{a}/{b}/logs", TwoSegments),
    ]
)


def _found(path: bytes) -> tuple[list[str], list[str]] | None:
    found = ROUTER.find(path)
    return (sorted({route.endpoint.path for route in found[0].values()}), found[1]) if found else None


@pytest.mark.parametrize(
    ("path", "template", "values"),
    [
        (b"/work", "/work", []),
        (b"/work/7", "/work/{workId}", ["7"]),
        (b"/work/latest", "/work/latest", []),
        (b"/work/7/stop", "/work/{workId}/stop", ["7"]),
        (b"/work/latest/7", "/work/latest/{workId}", ["7"]),
        (b"/work/latest/stop", "/work/latest/{workId}", ["stop"]),
        (b"/x/y/logs", "/{a}/{b}/logs", ["x", "y"]),
        (b"/work/7/logs", "/{a}/{b}/logs", ["work", "7"]),
        (b"/work/latest/logs", "/work/latest/{workId}", ["logs"]),
        (b"/work/a%2Fb", "/work/{workId}", ["a/b"]),
        (b"/work/%2E%2E", "/work/{workId}", [".."]),
        (b"/work/{}", "/work/{workId}", ["{}"]),
        (b"/{}/{}/logs", "/{a}/{b}/logs", ["{}", "{}"]),
        (b"/work/%E6%9D%8E", "/work/{workId}", ["李"]),
        (b"/%77ork/7", "/work/{workId}", ["7"]),
        (b"/work/", "/work/{workId}", [""]),
        (b"/work//stop", "/work/{workId}/stop", [""]),
    ],
)
def test_a_fixed_segment_wins_and_a_quoted_slash_does_not_divide(path: bytes, template: str, values: list[str]) -> None:
    assert _found(path) == ([template], values)


@pytest.mark.parametrize(
    "path",
    [
        *(b"", b"/", b"//", b"/work/7/", b"/work//", b"/work/7/stop/8", b"/Work"),
        *(b"/work/%FF", b"/work/%00", b"/nothing", b"*", b"work"),
    ],
)
def test_another_path_is_not_found(path: bytes) -> None:
    assert _found(path) is None


def test_all_methods_of_a_path_are_found_together() -> None:
    found = ROUTER.find(b"/work")
    assert found is not None
    assert sorted(found[0]) == ["GET", "POST"]


def test_an_endpoint_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="GET /work is declared twice"):
        Router([_endpoint("GET", "/work"), _endpoint("GET", "/work")])
    with pytest.raises(ValueError, match="declared twice"):
        Router([_endpoint("GET", "/{a}/{b}", TwoSegments), _endpoint("GET", "/{b}/{a}", TwoSegments)])


def test_a_variable_that_the_parameters_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"/work/\{other\}: OneSegment lacks other"):
        Router([_endpoint("GET", "/work/{other}", OneSegment)])


@pytest.mark.parametrize("declared", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_endpoint_is_found_at_its_own_path(declared: Endpoint) -> None:
    path = "/".join("some-name" if part.startswith("{") else part for part in declared.path.split("/"))
    found = Router(ENDPOINTS).find(path.encode())
    assert found is not None
    assert found[0][declared.method].endpoint is declared


@given(st.binary(max_size=40))
def test_any_bytes_are_found_or_not(path: bytes) -> None:
    found = ROUTER.find(b"/" + path)
    assert found is None or len(found[1]) <= 2
