"""Bodies: JSON to a struct, or an error that names the field and says what would do."""

import contextlib
import json
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Meta, UnsetType

from stoker.api.http.bodies import BodyDecoder
from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.base import RequestBody


class Kind(StrEnum):
    JOB = "Job"
    DEPLOYMENT = "Deployment"
    AUTHORING = "Authoring"


class Resource(RequestBody, frozen=True, kw_only=True):
    cpu: Annotated[str, Meta(max_length=8)]
    replica: Annotated[int, Meta(ge=1)] = 1


class Create(RequestBody, frozen=True, kw_only=True):
    display_name: Annotated[str, Meta(pattern="^[a-z]+$")]
    resource: Resource | None = None
    kinds: list[Kind] = []
    env: dict[str, Resource] = {}
    share: Annotated[float, Meta(ge=0, le=1)] | UnsetType = UNSET
    supervised: bool = False
    labels: Annotated[dict[str, str], Meta(min_length=1, max_length=2)] = {}


DECODE = BodyDecoder(Create)
WHOLE = "an object with displayName"


def _refusal(raw: bytes | str, decoder: BodyDecoder = DECODE) -> tuple[str, str]:
    with pytest.raises(StokerError) as raised:
        decoder(raw.encode() if isinstance(raw, str) else raw)
    assert raised.value.code is ErrorCode.BAD_REQUEST
    return raised.value.field, raised.value.message


def test_a_good_body_becomes_the_struct() -> None:
    raw = b'{"displayName":"train","resource":{"cpu":"4"},"kinds":["Job"],"share":1}'
    assert DECODE(raw) == Create(display_name="train", resource=Resource(cpu="4"), kinds=[Kind.JOB], share=1.0)


@pytest.mark.parametrize(
    ("raw", "field", "message"),
    [
        (
            '{"displayName":"a","x":1}',
            "x",
            "x: there is no such field here. Use displayName, resource, kinds, env, share, supervised or labels.",
        ),
        (
            '{"displayName":"a","display_name":"b"}',
            "display_name",
            "display_name: there is no such field here. Did you mean displayName?",
        ),
        ("{}", "displayName", "displayName: it is required. Use text that matches ^[a-z]+$."),
        ("null", "body", f"body: it is null. Use {WHOLE}."),
        (
            '{"displayName":"A"}',
            "displayName",
            'displayName: "A" is not allowed. Use text that matches ^[a-z]+$.',
        ),
        (
            '{"displayName":"a","resource":{"cpu":4}}',
            "resource.cpu",
            "resource.cpu: it is a number. Use text of at most 8 characters.",
        ),
        (
            '{"displayName":"a","resource":{"cpu":"4","replica":0}}',
            "resource.replica",
            "resource.replica: 0 is not allowed. Use a whole number at least 1.",
        ),
        (
            '{"displayName":"a","resource":{"cpu":"4","gpu":1}}',
            "resource.gpu",
            "resource.gpu: there is no such field here. Use cpu or replica.",
        ),
        (
            '{"displayName":"a","kinds":["Job","Pod"]}',
            "kinds[1]",
            'kinds[1]: "Pod" is not allowed. Use Job, Deployment or Authoring.',
        ),
        (
            '{"displayName":"a","kinds":"Job"}',
            "kinds",
            "kinds: it is text. Use a list, each Job, Deployment or Authoring.",
        ),
        (
            '{"displayName":"a","env":{"K":{"cpu":1}}}',
            'env["K"].cpu',
            'env["K"].cpu: it is a number. Use text of at most 8 characters.',
        ),
        ('{"displayName":"a","env":[]}', "env", "env: it is a list. Use an object."),
        (
            '{"displayName":"a","labels":{"a":"","b":"","c":""}}',
            "labels",
            "labels: it has 3 entries. Use an object of 1 to 2 entries.",
        ),
        ('{"displayName":"a","labels":{}}', "labels", "labels: it is empty. Use an object of 1 to 2 entries."),
        (
            '{"displayName":"a","share":1.5}',
            "share",
            "share: 1.5 is not allowed. Use a number from 0 to 1.",
        ),
        ('{"displayName":"a","supervised":1}', "supervised", "supervised: it is a number. Use true or false."),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(raw: str, field: str, message: str) -> None:
    assert _refusal(raw) == (field, message)


class Submit(RequestBody, frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern="^[a-z]+$", max_length=9, description="1 to 9 small letters", examples=["ab"])]
    env: dict[Annotated[str, Meta(pattern="^[^=]+$", description='a name without "="')], str | None] = {}
    nodes: Annotated[tuple[str, ...], Meta(min_length=1)] = ("a",)
    password: Annotated[str, Meta(min_length=12)] = "x" * 12


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"name": "A B"}, 'name: "A B" is not allowed. Use 1 to 9 small letters, for example "ab".'),
        ({"name": "a" * 10}, 'name: it has 10 characters. Use 1 to 9 small letters, for example "ab".'),
        ({}, 'name: it is required. Use 1 to 9 small letters, for example "ab".'),
        ({"name": "a", "env": {"A": "1", "B=": "2"}}, 'env["B="]: "B=" is not allowed. Use a name without "=".'),
        ({"name": "a", "env": {"A": "1", "B": 2}}, 'env["B"]: it is a number. Use text or null.'),
        ({"name": "a", "env": {"A": "1", "B": {}}}, 'env["B"]: it is an object. Use text or null.'),
        ({"name": "a", "nodes": []}, "nodes: it is empty. Use a list of at least 1, each text."),
        ({"name": "a", "nodes": ["a", True]}, "nodes[1]: it is true. Use text."),
    ],
)
def test_a_rule_is_said_in_words_and_the_entry_that_breaks_it_is_named(body: dict[str, Any], message: str) -> None:
    assert _refusal(json.dumps(body), BodyDecoder(Submit))[1] == message


def test_free_text_is_never_repeated() -> None:
    refused = _refusal('{"name": "a", "password": "hunter2"}', BodyDecoder(Submit))
    assert refused == ("password", "password: it has 7 characters. Use text of at least 12 characters.")


@pytest.mark.parametrize("raw", ["", "  ", "\r\n\t"])
def test_an_empty_body_says_what_to_send(raw: str) -> None:
    assert _refusal(raw) == ("", f"The body is empty. Send {WHOLE} as JSON.")


def test_a_name_or_value_of_any_length_is_quoted_short() -> None:
    for body in ({"displayName": "a", "x" * 100_000: 1}, {"displayName": "a", "kinds": ["x" * 100_000]}):
        field, message = _refusal(json.dumps(body))
        assert len(field) <= 121
        assert len(message) < 500


def test_json_inside_a_json_string_is_read_only_where_clients_send_it() -> None:
    raw = json.dumps(json.dumps({"displayName": "train"})).encode()
    assert BodyDecoder(Create, accept_json_string=True)(raw) == Create(display_name="train")
    assert _refusal(raw) == ("body", f"body: it is text. Use {WHOLE}.")


@pytest.mark.parametrize("accept_json_string", [False, True])
@pytest.mark.parametrize(
    "raw", [b'{"displayName":"\xff"}', b'{"n\xff":1}', b"\xff\xfe{", b'"\xff"', b'{"env":{"\xc3":""}}']
)
def test_a_body_that_is_not_utf_8_is_told_so_in_our_words(raw: bytes, accept_json_string: bool) -> None:
    assert _refusal(raw, BodyDecoder(Create, accept_json_string=accept_json_string)) == ("", "The body is not UTF-8.")


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_body_that_is_nested_too_deeply_is_told_so_in_our_words(opening: bytes, closing: bytes) -> None:
    bomb = b'{"a":' + opening * 100_000 + b"1" + closing * 100_000 + b"}"
    assert _refusal(bomb, BodyDecoder(dict[str, Any])) == ("", "The body is nested too deeply.")


@pytest.mark.parametrize("before", [b"", b'{"displayName":', b'{"env":{"a":', b'{"nothing":'])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth_is_told_before_anything_else_that_is_wrong(before: bytes, opening: bytes) -> None:
    assert _refusal(before + opening * 100_000) == ("", "The body is nested too deeply.")


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for decoder in (DECODE, BodyDecoder(dict[str, Any], accept_json_string=True)):
        with contextlib.suppress(StokerError):
            decoder(raw)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
SHALLOW = PLAIN | st.lists(PLAIN, max_size=4) | st.dictionaries(st.text(), PLAIN, max_size=4)
JSON = SHALLOW | st.lists(SHALLOW, max_size=4) | st.dictionaries(st.text(), SHALLOW, max_size=4)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_no_nul_gets_in_by_any_way(body: dict[str, Any]) -> None:
    decoder = BodyDecoder(dict[str, Any], accept_json_string=True)
    once = json.dumps(body)
    for raw in (once, json.dumps(once)):
        if "\0" in repr_of(body):
            assert _refusal(raw, decoder) == ("", "The body must not contain the character NUL (\\u0000).")
        else:
            assert decoder(raw.encode()) == body


def repr_of(value: Any) -> str:
    """Every text inside, one after the other."""
    match value:
        case dict():
            return "".join(key + repr_of(each) for key, each in value.items())
        case list():
            return "".join(map(repr_of, value))
        case str():
            return value
        case _:
            return ""
