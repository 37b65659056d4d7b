"""Each family answers in its own envelope and words the same errors in its own way."""

import json
from collections.abc import AsyncIterator, Iterator

import msgspec
import pytest
from tests.api.conftest import OpenHarness
from tests.api.harness import FAR, Harness
from tests.api.probes import BASES, SECRET_DETAIL, ErrorCase, bad_request, check, with_probes

MIB = 1024 * 1024
HERE = "Send an object with name as JSON."

pytestmark = pytest.mark.parametrize("family", BASES)


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with Harness(tmp_path_factory.mktemp("probes") / "data") as harness:
        yield with_probes(harness)


def _padded(size: int) -> bytes:
    return b'{"name":"li"}'.ljust(size)


async def _in_pieces(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 65_536):
        yield content[start : start + 65_536]


def test_success_has_the_familys_envelope(probes: Harness, family: str) -> None:
    answer = probes.get(f"{BASES[family]}/probe?text=hello")
    data = {"page_size": 20, "colours": [], "text": "hello"}
    envelopes = {
        "monitoring": {"code": 0, "message": "success", "data": data, "traceId": answer.headers["X-Trace-Id"]},
        "aggregation": {"code": 200, "message": "success", "data": data},
    }
    assert (answer.status_code, answer.json()) == (200, envelopes.get(family, data))
    assert answer.headers["Content-Type"] == "application/json"


def test_an_unknown_path_is_not_found(probes: Harness, family: str) -> None:
    for end in ("/nothing/here", "/probe/", "/probe//", "/%ff", "/%00", "/probe%00"):
        message = f"There is nothing at {BASES[family]}{end}."
        wrong = ErrorCase(404, "not_found", "00005", message, "See /docs for the API.")
        check(probes.get(BASES[family] + end), family, wrong)


def test_another_method_is_not_allowed_and_the_answer_says_which_are(probes: Harness, family: str) -> None:
    for method in ("DELETE", "PATCH", "OPTIONS", "BREW"):
        answer = probes.request(method, f"{BASES[family]}/probe")
        assert answer.headers["Allow"] == "GET, HEAD, POST"
        message, hint = f"{method} is not allowed here.", "Use GET, HEAD, POST."
        check(answer, family, ErrorCase(405, "method_not_allowed", "00002", message, hint, "GET, HEAD, POST"))


def test_a_head_request_is_a_get_without_its_body(probes: Harness, family: str) -> None:
    for end, status in (("/probe", 200), ("/probe?pageSize=0", 400), ("/nothing/here", 404)):
        head, get = probes.request("HEAD", BASES[family] + end), probes.get(BASES[family] + end)
        assert (head.status_code, head.content) == (status, b"")
        for header in ("Content-Type", "Content-Length"):
            assert head.headers[header] == get.headers[header]
        assert len(head.headers["X-Trace-Id"]) == 32


def test_a_body_of_exactly_two_mib_is_taken(probes: Harness, family: str) -> None:
    path = f"{BASES[family]}/probe"
    assert probes.post(path, content=_padded(2 * MIB)).status_code == 200
    assert probes.post(path, content=_in_pieces(_padded(2 * MIB))).status_code == 200


def test_a_larger_body_is_too_large_however_it_is_sent(probes: Harness, family: str) -> None:
    path = f"{BASES[family]}/probe"
    wrong = ErrorCase(413, "too_large", "00006", "The body is larger than 2097152 bytes.")
    check(probes.post(path, content=_padded(2 * MIB + 1)), family, wrong)
    check(probes.post(path, content=_in_pieces(_padded(2 * MIB + 1))), family, wrong)
    check(probes.post(path, content=b"{}", headers={"Content-Length": "2097153"}), family, wrong)
    check(probes.post(path, content=b"{}", headers={"Content-Length": "9" * 30}), family, wrong)


@pytest.mark.parametrize("length", ["-1", "x", "\xb2"])
def test_a_length_that_is_no_number_is_not_believed(probes: Harness, family: str, length: str) -> None:
    answer = probes.post(f"{BASES[family]}/probe", content=b'{"name":"li"}', headers={"Content-Length": length})
    assert answer.status_code == 200


@pytest.mark.parametrize("content", [b"", b"  \r\n\t "])
def test_an_empty_body_is_told_what_to_send(probes: Harness, family: str, content: bytes) -> None:
    check(probes.post(f"{BASES[family]}/probe", content=content), family, bad_request(f"The body is empty. {HERE}"))


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"name=li",
        b'{"name":"li"} x',
        b"{'name':'li'}",
        b'{"name":NaN}',
        b'{"name":"\x01"}',
        b'{"name":"\\ud800"}',
        b'{"name":"\\ud800abcdef"}',
        b'{"name":"\\udc00\\ud800"}',
    ],
)
def test_a_body_that_is_not_json_is_told_why(probes: Harness, family: str, content: bytes) -> None:
    answer = probes.post(f"{BASES[family]}/probe", content=content)
    with pytest.raises(msgspec.DecodeError) as reason:
        msgspec.json.decode(content)
    check(answer, family, bad_request(f"The body is not JSON: {reason.value}."))


@pytest.mark.parametrize("content", [b'{"name":"\xff"}', b"\xff\xfe{\x00"])
def test_a_body_that_is_not_utf_8_is_told_so(probes: Harness, family: str, content: bytes) -> None:
    check(probes.post(f"{BASES[family]}/probe", content=content), family, bad_request("The body is not UTF-8."))


def test_a_body_that_is_text_is_no_object(probes: Harness, family: str) -> None:
    answer = probes.post(f"{BASES[family]}/probe", content=b'"text"')
    if family == "runai":  # whose clients put JSON into a string
        check(answer, family, bad_request("The body is not JSON: JSON is malformed: invalid character (byte 4)."))
    else:
        check(answer, family, bad_request("body: it is text. Use an object with name.", "body"))


def test_a_body_nested_too_deeply_is_a_bad_request(probes: Harness, family: str) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        bomb = b'{"name":"li","anything":' + opening * 100_000 + b"1" + closing * 100_000 + b"}"
        answer = probes.post(f"{BASES[family]}/probe", content=bomb)
        assert answer.status_code == 400
        assert "The body is nested too deeply." in answer.text
        assert "recursion" not in answer.text


@pytest.mark.parametrize(
    ("content", "message", "field"),
    [
        (b'{"name":"li","nmae":1}', "nmae: there is no such field here. Did you mean name?", "nmae"),
        (b'{"size":null}', "name: it is required. Use text of at most 10 characters.", "name"),
        (b"[]", "body: it is a list. Use an object with name.", "body"),
        (b'{"name":7}', "name: it is a number. Use text of at most 10 characters.", "name"),
        (
            b'{"name":"' + b"x" * 11 + b'"}',
            "name: it has 11 characters. Use text of at most 10 characters.",
            "name",
        ),
        (
            b'{"name":"li","size":{"width":"5"}}',
            "size.width: it is text. Use a whole number from 1 to 10.",
            "size.width",
        ),
        (
            b'{"name":"li","size":{"width":11}}',
            "size.width: 11 is not allowed. Use a whole number from 1 to 10.",
            "size.width",
        ),
        (
            b'{"name":"li","size":{"width":1.5}}',
            "size.width: it is a number with a fraction. Use a whole number from 1 to 10.",
            "size.width",
        ),
        (
            b'{"name":"li","size":{"width":' + b"9" * 5000 + b"}}",
            "size.width: integer value out of range. Use a whole number from 1 to 10.",
            "size.width",
        ),
        (
            b'{"name":"li","size":{"width":1,"depth":1}}',
            "size.depth: there is no such field here. Use width.",
            "size.depth",
        ),
        (
            b'{"name":"li","size":{}}',
            "size.width: it is required. Use a whole number from 1 to 10.",
            "size.width",
        ),
        (
            b'{"name":"li","colours":["red","green"]}',
            'colours[1]: "green" is not allowed. Use red or blue.',
            "colours[1]",
        ),
        (b'{"name":"li","labels":{"a":1}}', 'labels["a"]: it is a number. Use text.', 'labels["a"]'),
    ],
)
def test_a_wrong_field_is_named_with_what_it_may_be(
    probes: Harness, family: str, content: bytes, message: str, field: str
) -> None:
    check(probes.post(f"{BASES[family]}/probe", content=content), family, bad_request(message, field))


def test_what_was_sent_comes_back_in_a_readable_length(probes: Harness, family: str) -> None:
    for body in ({"name": "li", "x" * MIB: 1}, {"name": "li", "colours": ["x" * MIB]}):
        answer = probes.post(f"{BASES[family]}/probe", json=body)
        assert answer.status_code == 400
        assert len(answer.content) < 1000


@pytest.mark.parametrize("value", ["\\u0000", "a\\u0000b", "\\\\\\u0000"])
def test_the_character_nul_is_refused_in_bodies(probes: Harness, family: str, value: str) -> None:
    message = "The body must not contain the character NUL (\\u0000)."
    for content in (f'{{"name":"{value}"}}', f'{{"name":"li","labels":{{"{value}":""}}}}'):
        check(probes.post(f"{BASES[family]}/probe", content=content), family, bad_request(message))


def test_an_escaped_backslash_before_u0000_is_no_nul(probes: Harness, family: str) -> None:
    answer = probes.post(f"{BASES[family]}/probe", content=b'{"name":"\\\\u0000"}')
    assert answer.status_code == 200
    assert "\\\\u0000" in answer.text


@pytest.mark.parametrize(
    ("query", "message", "field"),
    [
        ("text=%ff", "text: it is not UTF-8 text.", "text"),
        ("text=%ed%a0%80", "text: it is not UTF-8 text.", "text"),
        ("%c3=1", "query: it is not UTF-8 text.", "query"),
        ("text=%00", "text: it must not contain the character NUL.", "text"),
        ("pageSize=0", 'pageSize: "0" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        ("pageSize=-1", 'pageSize: "-1" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        ("pageSize=1001", 'pageSize: "1001" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        ("pageSize=1.5", 'pageSize: "1.5" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        ("pageSize=", 'pageSize: "" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        ("pageSize=ten", 'pageSize: "ten" is not allowed. Use a whole number from 1 to 1000.', "pageSize"),
        (
            "pageSize=" + "9" * 5000,
            f'pageSize: "{"9" * 80}…" is not allowed. Use a whole number from 1 to 1000.',
            "pageSize",
        ),
        (
            "colours=red,green",
            'colours: "red,green" is not allowed. Use a list of at most 3, each red or blue.',
            "colours",
        ),
    ],
)
def test_a_wrong_parameter_is_named_with_what_it_may_be(
    probes: Harness, family: str, query: str, message: str, field: str
) -> None:
    check(probes.get(f"{BASES[family]}/probe?{query}"), family, bad_request(message, field))


def test_of_a_parameter_that_comes_twice_the_last_counts(probes: Harness, family: str) -> None:
    answer = probes.get(f"{BASES[family]}/probe?pageSize=x&pageSize=5&text=a&text=b").json()
    assert answer.get("data", answer) == {"page_size": 5, "colours": [], "text": "b"}


def test_an_unknown_parameter_is_ignored(probes: Harness, family: str) -> None:
    assert probes.get(f"{BASES[family]}/probe?pagesize=0&nonsense=1&=&&x").status_code == 200


def test_the_snake_case_twin_is_known_to_the_monitoring_families_only(probes: Harness, family: str) -> None:
    answer = probes.get(f"{BASES[family]}/probe?page_size=7").json()
    expected = 7 if family in {"monitoring", "aggregation"} else 20
    assert answer.get("data", answer)["page_size"] == expected


def test_without_a_credential_it_says_how_to_sign_in(probes: Harness, family: str) -> None:
    answer = probes.get(f"{BASES[family]}/signed-in")
    hint = "Send the header Authorization: Bearer <API key>, or sign in with: stoker login"
    check(answer, family, ErrorCase(401, "not_signed_in", "00009", "This needs a credential.", hint))
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_a_wrong_credential_is_refused(probes: Harness, family: str) -> None:
    answer = probes.get(f"{BASES[family]}/signed-in", bearer="sk-stoker-wrong")
    hint = "Sign in again, or use another API key."
    check(answer, family, ErrorCase(401, "not_signed_in", "00009", "The API key is not known.", hint))


def test_an_unexpected_failure_gives_nothing_away(
    probes: Harness, family: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = probes.get(f"{BASES[family]}/broken")
    trace_id = answer.headers["X-Trace-Id"]
    message = f"An unexpected error occurred. See the server's log for trace id {trace_id}."
    check(answer, family, ErrorCase(500, "internal", "00001", message))
    assert SECRET_DETAIL not in answer.text
    assert "Traceback" not in answer.text
    (record,) = [record for record in caplog.records if record.exc_info]
    assert SECRET_DETAIL in (record.exc_text or str(record.exc_info))
    assert vars(record)["trace_id"] == trace_id


def test_a_request_that_takes_too_long_is_given_up(open_harness: OpenHarness, family: str) -> None:
    harness = with_probes(open_harness(request_timeout_seconds=0.02))
    answer = harness.get(f"{BASES[family]}/slow")
    message, hint = "The request took longer than 0.02 s and was cancelled.", "Try again, or request less data."
    check(answer, family, ErrorCase(503, "unavailable", "00007", message, hint))
    assert answer.headers["Retry-After"] == "1"


def test_a_body_that_does_not_arrive_is_given_up(open_harness: OpenHarness, family: str) -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b'{"name":'
        await harness.never()

    harness = with_probes(open_harness(request_timeout_seconds=0.02))
    answer = harness.post(f"{BASES[family]}/probe", content=stuck())
    assert answer.status_code == 503


def test_too_many_requests_say_when_to_come_back(open_harness: OpenHarness, family: str) -> None:
    harness = with_probes(open_harness(address_rate_limit=1))
    harness.get("/healthz", peer=FAR)
    answer = harness.get(f"{BASES[family]}/probe", peer=FAR)
    message = "Too many requests: the limit is 1 a second. Try again in a second."
    check(answer, family, ErrorCase(429, "too_many_requests", "00011", message))
    assert answer.headers["Retry-After"] == "1"


def test_a_closed_database_is_named(open_harness: OpenHarness, family: str) -> None:
    harness = with_probes(open_harness())
    harness.run(harness.installation.store.close())
    answer = harness.get(f"{BASES[family]}/signed-in", as_="admin")
    check(answer, family, ErrorCase(503, "unavailable", "00007", "Stoker is stopping; its database is closed."))
    assert answer.headers["Retry-After"] == "1"


def test_a_write_that_fails_unexpectedly_fails_in_the_familys_words_too(probes: Harness, family: str) -> None:
    answer = probes.post(f"{BASES[family]}/broken", as_="admin", json={"name": "li"})
    assert answer.status_code == 500
    assert json.loads(answer.content)
