"""Parameters: from the text of a query or a path to a struct, or an error that says what would do."""

import contextlib
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from stoker.api.http.params import NoParams, Params, ParamsDecoder, decode_segment, parse_query
from stoker.domain.errors import ErrorCode, StokerError


class Phase(StrEnum):
    RUNNING = "Running"
    FAILED = "Failed"


class AllParams(Params, frozen=True, kw_only=True, rename="camel"):
    uid: Annotated[str, Meta(min_length=1, max_length=8)]
    page_num: Annotated[int, Meta(ge=1)] = 1
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    details: bool = False
    phase: Phase | None = None
    last: Annotated[Phase | None, Meta(description="How it ended.")] = None
    order: Literal["asc", "desc"] = "desc"
    phases: tuple[Phase, ...] = ()
    names: Annotated[list[str], Meta(max_length=3)] = []
    text: str | None = None


DECODE = ParamsDecoder(AllParams)
TWINS = ParamsDecoder(AllParams, accept_snake_case=True)


def _read(query: str, decoder: ParamsDecoder[AllParams] = DECODE) -> AllParams:
    return decoder(query.encode(), {"uid": "u-1"})


def _refusal(query: str) -> tuple[str, str]:
    with pytest.raises(StokerError) as raised:
        _read(query)
    assert raised.value.code is ErrorCode.BAD_REQUEST
    return raised.value.field, raised.value.message


def test_what_is_not_given_has_its_default() -> None:
    assert _read("") == AllParams(uid="u-1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("pageNum=7", AllParams(uid="u-1", page_num=7)),
        ("ratio=0.25", AllParams(uid="u-1", ratio=0.25)),
        ("details=true", AllParams(uid="u-1", details=True)),
        ("details=1", AllParams(uid="u-1", details=True)),
        ("details=False", AllParams(uid="u-1", details=False)),
        ("phase=Running", AllParams(uid="u-1", phase=Phase.RUNNING)),
        ("order=asc", AllParams(uid="u-1", order="asc")),
        ("text=a+b%2Bc", AllParams(uid="u-1", text="a b+c")),
        ("text=", AllParams(uid="u-1", text="")),
        ("text", AllParams(uid="u-1", text="")),
        ("text=a=b", AllParams(uid="u-1", text="a=b")),
        ("text=%E6%9D%8E", AllParams(uid="u-1", text="李")),
        ("te%78t=x", AllParams(uid="u-1", text="x")),
    ],
)
def test_text_becomes_what_the_field_is(query: str, expected: AllParams) -> None:
    assert _read(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        "phases=Running,Failed",
        "phases=Running&phases=Failed",
        "phases= Running , ,Failed,",
        "phases=Running%2CFailed",
        "phases=&phases=Running&phases=Failed",
    ],
)
def test_a_list_is_given_with_commas_or_repeated_and_its_blanks_are_trimmed(query: str) -> None:
    assert _read(query).phases == (Phase.RUNNING, Phase.FAILED)


@pytest.mark.parametrize("query", ["phases=", "phases=,", "phases=%20", "phase=", "order=", "names="])
def test_a_blank_choice_or_list_is_one_that_was_not_given(query: str) -> None:
    assert _read(query) == AllParams(uid="u-1")


@pytest.mark.parametrize(
    ("query", "field", "message"),
    [
        ("pageNum=0", "pageNum", 'pageNum: "0" is not allowed. Use a whole number at least 1.'),
        ("pageNum=x", "pageNum", 'pageNum: "x" is not allowed. Use a whole number at least 1.'),
        ("pageNum=", "pageNum", 'pageNum: "" is not allowed. Use a whole number at least 1.'),
        ("pageNum=2.5", "pageNum", 'pageNum: "2.5" is not allowed. Use a whole number at least 1.'),
        ("ratio=1", "ratio", 'ratio: "1" is not allowed. Use a number above 0 and below 1.'),
        ("ratio=nan", "ratio", 'ratio: "nan" is not allowed. Use a number above 0 and below 1.'),
        ("details=maybe", "details", 'details: "maybe" is not allowed. Use true or false.'),
        ("details=", "details", 'details: "" is not allowed. Use true or false.'),
        ("phase=running", "phase", 'phase: "running" is not allowed. Use Running or Failed.'),
        ("order=up", "order", 'order: "up" is not allowed. Use asc or desc.'),
        (
            "phases=Running,Lost",
            "phases",
            'phases: "Running,Lost" is not allowed. Use a list, each Running or Failed.',
        ),
        ("names=a,b,c,d", "names", 'names: "a,b,c,d" is not allowed. Use a list of at most 3, each text.'),
        ("phase=null", "phase", 'phase: "null" is not allowed. Use Running or Failed.'),
        ("last=ended", "last", 'last: "ended" is not allowed. Use Running or Failed.'),
        ("phase=NULL", "phase", 'phase: "NULL" is not allowed. Use Running or Failed.'),
        ("pageNum=0&details=maybe", "pageNum", 'pageNum: "0" is not allowed. Use a whole number at least 1.'),
        ("text=%00", "text", "text: it must not contain the character NUL."),
        ("text=%FF", "text", "text: it is not UTF-8 text."),
        ("text=%ED%A0%80", "text", "text: it is not UTF-8 text."),
        ("unknown=%FF", "query", "query: it is not UTF-8 text."),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_can(query: str, field: str, message: str) -> None:
    assert _refusal(query) == (field, message)


def test_a_long_value_is_quoted_short() -> None:
    field, message = _refusal("pageNum=" + "1" * 5000 + "x")
    assert field == "pageNum"
    assert len(message) < 200


def test_a_missing_one_is_named() -> None:
    with pytest.raises(StokerError, match=r"^uid: it is required\. Use text of 1 to 8 characters\.$"):
        DECODE(b"", {})


def test_a_part_of_the_path_is_judged_like_any_other() -> None:
    with pytest.raises(StokerError, match=r'^uid: "123456789" is not allowed\. Use text of 1 to 8 characters\.$'):
        DECODE(b"", {"uid": "123456789"})


def test_the_path_wins_over_a_query_of_the_same_name() -> None:
    assert _read("uid=other").uid == "u-1"


def test_unknown_names_are_ignored_and_case_counts() -> None:
    assert _read("pagenum=9&PageNum=9&nonsense=1&&=&%20=") == AllParams(uid="u-1")


def test_the_snake_case_twin_is_read_only_where_it_is_asked_for() -> None:
    assert _read("page_num=3") == AllParams(uid="u-1")
    assert _read("page_num=3", TWINS).page_num == 3
    assert _read("page_num=3&pageNum=4", TWINS).page_num == 4
    assert _read("pageNum=4&page_num=3", TWINS).page_num == 3


def test_a_bad_twin_is_named_as_the_document_spells_it() -> None:
    with pytest.raises(StokerError) as raised:
        _read("page_num=0", TWINS)
    assert raised.value.field == "pageNum"


def test_the_last_of_several_values_counts() -> None:
    assert _read("pageNum=1&pageNum=2").page_num == 2
    assert _read("phases=Running&text=x&phases=Failed").phases == (Phase.RUNNING, Phase.FAILED)


def test_an_endpoint_without_parameters_takes_any_query() -> None:
    assert ParamsDecoder(NoParams)(b"a=1&b", {}) == NoParams()


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.tuples(TEXTS, TEXTS)))
def test_what_was_quoted_is_read_back(pairs: list[tuple[str, str]]) -> None:
    query = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    assert parse_query(query.encode()) == pairs


@given(st.binary())
def test_any_bytes_are_read_or_refused(query: bytes) -> None:
    with contextlib.suppress(StokerError):
        assert isinstance(DECODE(query, {"uid": "u-1"}), AllParams)


@pytest.mark.parametrize(
    ("segment", "text"),
    [(b"a", "a"), (b"a%2Fb", "a/b"), (b"a+b", "a+b"), (b"%E6%9D%8E", "李"), (b"%", "%"), (b"%zz", "%zz"), (b"", "")],
)
def test_a_segment_of_a_path_is_unquoted(segment: bytes, text: str) -> None:
    assert decode_segment(segment) == text


@pytest.mark.parametrize("segment", [b"%FF", b"%00", b"a%00b", b"\xff", b"%ED%A0%80"])
def test_a_segment_that_is_no_text_is_none(segment: bytes) -> None:
    assert decode_segment(segment) is None
