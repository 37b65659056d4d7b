"""Retries and errors of the SDK, without a network and without waiting."""

from typing import Any

import pytest
from msgspec import Struct

from stoker.client.transport.request_flow import (
    MAX_ATTEMPTS,
    MAX_BACKOFF_SECONDS,
    ApiRequest,
    ApiResponse,
    RetryDelay,
    TransportFailure,
    Unreachable,
    retry_flow,
)
from stoker.domain.errors import ErrorCode, StokerError

SERVER = "http://127.0.0.1:8080"
GONE = TransportFailure("connection reset by peer", was_sent=True)
REFUSED = TransportFailure("connection refused", was_sent=False)


class Item(Struct):
    name: str


def answer(status: int, body: bytes = b'{"name":"a"}', **headers: str) -> ApiResponse:
    return ApiResponse(status, headers, body)


def play(request: ApiRequest, *came: ApiResponse | TransportFailure) -> tuple[Any, list[float]]:
    """The result of a conversation in which these came back, and the pauses in between."""
    talk = retry_flow(SERVER, request)
    step, rest, pauses = next(talk), list(came), []
    try:
        while True:
            if isinstance(step, RetryDelay):
                pauses.append(step.seconds)
                step = talk.send(None)
            else:
                assert step is request
                step = talk.send(rest.pop(0))
    except StopIteration as end:
        assert rest == []
        return end.value, pauses


def test_an_answer_becomes_the_declared_struct() -> None:
    assert play(ApiRequest(method="GET", path="/x", result=Item), answer(200))[0] == Item("a")


def test_an_answer_without_content_is_none() -> None:
    assert play(ApiRequest(method="DELETE", path="/x"), answer(204, b"")) == (None, [])


@pytest.mark.parametrize("passing", [GONE, REFUSED, *(answer(status) for status in (429, 502, 503, 504))])
def test_what_can_be_repeated_is_sent_again_with_growing_pauses(passing: ApiResponse | TransportFailure) -> None:
    request = ApiRequest(method="POST", path="/x", result=Item, is_idempotent=True)
    assert play(request, passing, passing, answer(201)) == (Item("a"), [0.2, 0.4])


def test_attempts_are_bounded() -> None:
    with pytest.raises(Unreachable, match="connection refused"):
        play(ApiRequest(method="GET", path="/x"), *[REFUSED] * MAX_ATTEMPTS)


@pytest.mark.parametrize("passing", [GONE, answer(502), answer(503), answer(504)])
def test_what_must_not_be_repeated_is_sent_once_if_the_server_may_have_had_it(
    passing: ApiResponse | TransportFailure,
) -> None:
    with pytest.raises(StokerError):
        play(ApiRequest(method="POST", path="/login", is_idempotent=False), passing)


@pytest.mark.parametrize("passing", [REFUSED, answer(429)])
def test_what_the_server_never_had_can_always_be_sent_again(passing: ApiResponse | TransportFailure) -> None:
    request = ApiRequest(method="POST", path="/login", result=Item, is_idempotent=False)
    assert play(request, passing, answer(200))[0] == Item("a")


def test_the_server_says_how_long_to_wait() -> None:
    request = ApiRequest(method="GET", path="/x", result=Item)
    assert play(request, answer(503, **{"retry-after": "3"}), answer(200))[1] == [3.0]


def test_a_wait_that_is_too_long_is_left_to_the_caller() -> None:
    late = answer(429, b"{}", **{"retry-after": str(int(MAX_BACKOFF_SECONDS) + 1)})
    with pytest.raises(StokerError) as caught:
        play(ApiRequest(method="GET", path="/x"), late)
    assert caught.value.code is ErrorCode.TOO_MANY_REQUESTS


def test_an_answer_that_was_waited_for_long_enough_is_not_asked_for_again() -> None:
    with pytest.raises(Unreachable):
        play(
            ApiRequest(method="GET", path="/x"),
            TransportFailure("it has not answered within 60 s", was_sent=True, timed_out=True),
        )


def test_a_delete_whose_first_answer_was_lost_has_worked_if_the_thing_is_gone() -> None:
    assert play(ApiRequest(method="DELETE", path="/x"), GONE, answer(404, b"{}")) == (None, [0.2])


def test_a_delete_of_what_was_never_there_is_not_found() -> None:
    with pytest.raises(StokerError) as caught:
        play(ApiRequest(method="DELETE", path="/x"), answer(404, b"{}"))
    assert caught.value.code is ErrorCode.NOT_FOUND


def test_an_error_keeps_the_words_of_the_server() -> None:
    body = b'{"error":{"code":"exists","message":"M","hint":"H","field":"name","traceId":"t"}}'
    with pytest.raises(StokerError) as caught:
        play(ApiRequest(method="GET", path="/x"), answer(409, body))
    error = caught.value
    assert (error.code, error.message, error.hint, error.field) == (ErrorCode.ALREADY_EXISTS, "M", "H", "name")


def test_a_code_from_a_newer_server_falls_back_on_the_status() -> None:
    with pytest.raises(StokerError) as caught:
        play(ApiRequest(method="GET", path="/x"), answer(403, b'{"error":{"code":"new","message":"M"}}'))
    assert caught.value.code is ErrorCode.FORBIDDEN


def test_an_answer_of_something_else_says_so() -> None:
    with pytest.raises(StokerError, match="not with an error of Stoker"):
        play(ApiRequest(method="GET", path="/x"), answer(418, b"<html>"))


def test_an_answer_that_does_not_fit_says_so() -> None:
    with pytest.raises(StokerError, match="cannot be read"):
        play(ApiRequest(method="GET", path="/x", result=Item), answer(200, b"[]"))
