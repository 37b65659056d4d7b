"""Retries and errors of the SDK, without a network and without waiting."""

from typing import Any

import pytest
from msgspec import Struct

from stoker.client.exchange import (
    ATTEMPTS,
    LONGEST_PAUSE_SECONDS,
    Answer,
    Lost,
    Pause,
    Request,
    Unreachable,
    converse,
)
from stoker.domain.errors import ErrorCode, StokerError

SERVER = "http://127.0.0.1:8080"
GONE = Lost("connection reset by peer", sent=True)
REFUSED = Lost("connection refused", sent=False)


class Thing(Struct):
    name: str


def answer(status: int, body: bytes = b'{"name":"a"}', **headers: str) -> Answer:
    return Answer(status, headers, body)


def play(request: Request, *came: Answer | Lost) -> tuple[Any, list[float]]:
    """The result of a conversation in which these came back, and the pauses in between."""
    talk = converse(SERVER, request)
    step, rest, pauses = next(talk), list(came), []
    try:
        while True:
            if isinstance(step, Pause):
                pauses.append(step.seconds)
                step = talk.send(None)
            else:
                assert step is request
                step = talk.send(rest.pop(0))
    except StopIteration as end:
        assert rest == []
        return end.value, pauses


def test_an_answer_becomes_the_declared_struct() -> None:
    assert play(Request(method="GET", path="/x", result=Thing), answer(200))[0] == Thing("a")


def test_an_answer_without_content_is_none() -> None:
    assert play(Request(method="DELETE", path="/x"), answer(204, b"")) == (None, [])


@pytest.mark.parametrize("passing", [GONE, REFUSED, *(answer(status) for status in (429, 502, 503, 504))])
def test_what_can_be_repeated_is_sent_again_with_growing_pauses(passing: Answer | Lost) -> None:
    request = Request(method="POST", path="/x", result=Thing, repeatable=True)
    assert play(request, passing, passing, answer(201)) == (Thing("a"), [0.2, 0.4])


def test_attempts_are_bounded() -> None:
    with pytest.raises(Unreachable, match="connection refused"):
        play(Request(method="GET", path="/x"), *[REFUSED] * ATTEMPTS)


@pytest.mark.parametrize("passing", [GONE, answer(502), answer(503), answer(504)])
def test_what_must_not_be_repeated_is_sent_once_if_the_server_may_have_had_it(passing: Answer | Lost) -> None:
    with pytest.raises(StokerError):
        play(Request(method="POST", path="/login", repeatable=False), passing)


@pytest.mark.parametrize("passing", [REFUSED, answer(429)])
def test_what_the_server_never_had_can_always_be_sent_again(passing: Answer | Lost) -> None:
    request = Request(method="POST", path="/login", result=Thing, repeatable=False)
    assert play(request, passing, answer(200))[0] == Thing("a")


def test_the_server_says_how_long_to_wait() -> None:
    request = Request(method="GET", path="/x", result=Thing)
    assert play(request, answer(503, **{"retry-after": "3"}), answer(200))[1] == [3.0]


def test_a_wait_that_is_too_long_is_left_to_the_caller() -> None:
    late = answer(429, b"{}", **{"retry-after": str(int(LONGEST_PAUSE_SECONDS) + 1)})
    with pytest.raises(StokerError) as caught:
        play(Request(method="GET", path="/x"), late)
    assert caught.value.code is ErrorCode.TOO_MANY_REQUESTS


def test_an_answer_that_was_waited_for_long_enough_is_not_asked_for_again() -> None:
    with pytest.raises(Unreachable):
        play(Request(method="GET", path="/x"), Lost("it has not answered within 60 s", sent=True, late=True))


def test_a_delete_whose_first_answer_was_lost_has_worked_if_the_thing_is_gone() -> None:
    assert play(Request(method="DELETE", path="/x"), GONE, answer(404, b"{}")) == (None, [0.2])


def test_a_delete_of_what_was_never_there_is_not_found() -> None:
    with pytest.raises(StokerError) as caught:
        play(Request(method="DELETE", path="/x"), answer(404, b"{}"))
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_an_error_keeps_the_words_of_the_server() -> None:
    body = b'{"error":{"code":"exists","message":"M","hint":"H","field":"name","traceId":"t"}}'
    with pytest.raises(StokerError) as caught:
        play(Request(method="GET", path="/x"), answer(409, body))
    error = caught.value
    assert (error.code, error.message, error.hint, error.field) == (ErrorCode.EXISTS, "M", "H", "name")


def test_a_code_from_a_newer_server_falls_back_on_the_status() -> None:
    with pytest.raises(StokerError) as caught:
        play(Request(method="GET", path="/x"), answer(403, b'{"error":{"code":"new","message":"M"}}'))
    assert caught.value.code is ErrorCode.NOT_ALLOWED


def test_an_answer_of_something_else_says_so() -> None:
    with pytest.raises(StokerError, match="not in Stoker's words"):
        play(Request(method="GET", path="/x"), answer(418, b"<html>"))


def test_an_answer_that_does_not_fit_says_so() -> None:
    with pytest.raises(StokerError, match="cannot be read"):
        play(Request(method="GET", path="/x", result=Thing), answer(200, b"[]"))
