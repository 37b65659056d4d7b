"""One API call without I/O: the request, its retries, and the meaning of the response.

A transport drives the generator `retry_flow`: it sends each `ApiRequest`, sleeps for each `RetryDelay` and passes back
the outcome. The sync and the async client therefore differ only in how they wait.
"""

import posixpath
from collections.abc import Generator, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import msgspec
from msgspec import Struct

from stoker.client.transport.unix_socket import socket_path
from stoker.concurrency.retry import backoff_seconds
from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.errors import Problem, code_of_management_number

MAX_ATTEMPTS = 3
INITIAL_BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 10.0
RETRYABLE_STATUSES = frozenset({429, 502, 503, 504})
_CODE_BY_VALUE = {code.value: code for code in ErrorCode}
_CODE_BY_STATUS = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.FORBIDDEN,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
    409: ErrorCode.CONFLICT,
    413: ErrorCode.TOO_LARGE,
    429: ErrorCode.TOO_MANY_REQUESTS,
    431: ErrorCode.HEADERS_TOO_LARGE,
    502: ErrorCode.UNAVAILABLE,
    503: ErrorCode.UNAVAILABLE,
    504: ErrorCode.UNAVAILABLE,
}


class Unreachable(StokerError):  # noqa: N818 - the name is a state of the server
    """No server answered, or the connection was lost during the response (`broke_off`)."""

    def __init__(self, server: str, reason: str, *, broke_off: bool = False) -> None:
        hint = "Check that it is running and that the address is right."
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            hint = "Name the certificate to trust in the environment: SSL_CERT_FILE=cert.pem"
        message = f"The server at {server} cannot be reached: {reason}."
        if (path := socket_path(server)) is not None and not broke_off:
            message = f"No server runs on the data dir {posixpath.dirname(path)}: {reason}."
            hint = "Start it there, or name another server with --server."
        super().__init__(ErrorCode.UNAVAILABLE, message, hint=hint)
        self.server = server
        self.broke_off = broke_off


class ApiRequest(Struct, frozen=True, kw_only=True):
    """A request with the type of its result.

    One that `is_idempotent` may be sent twice. `idle_timeout_seconds` limits the silence in a streamed response.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    result: Any = None
    is_idempotent: bool = True
    idle_timeout_seconds: float | None = None


class RetryDelay(Struct, frozen=True):
    seconds: float


class ApiResponse(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class TransportFailure(Struct, frozen=True):
    """No response. `was_sent` if the server may have received the request."""

    reason: str
    was_sent: bool
    timed_out: bool = False


@runtime_checkable
class ResponseParser(Protocol):
    """A result that is built from the whole response; None means to decode the response as usual."""

    @classmethod
    def from_response(cls, request: ApiRequest, response: ApiResponse) -> Self | None: ...


class _ErrorEnvelope(Struct, frozen=True, rename="camel"):
    """An error of the native or of the management API. The message of the latter includes the hint."""

    error: Problem | None = None
    error_code: str = ""
    error_message: str = ""


def retry_flow(
    server: str, request: ApiRequest
) -> Generator[ApiRequest | RetryDelay, ApiResponse | TransportFailure | None, Any]:
    """Yield the next step of a call until it has a result or an error."""
    attempt = 1
    while True:
        outcome = yield request
        if outcome is None:
            raise TypeError("a request must be followed by its outcome")
        seconds = retry_delay(request, outcome, attempt)
        if seconds is None:
            break
        yield RetryDelay(seconds)
        attempt += 1
    if isinstance(outcome, TransportFailure):
        raise Unreachable(server, outcome.reason)
    if request.method == "DELETE" and attempt > 1 and outcome.status == 404:
        return None  # an earlier attempt, whose response was lost, has deleted it
    return parse_response(server, request, outcome)


def retry_delay(request: ApiRequest, outcome: ApiResponse | TransportFailure, attempt: int) -> float | None:
    """Seconds until the next attempt; None if the outcome is final."""
    if attempt >= MAX_ATTEMPTS:
        return None
    backoff = backoff_seconds(attempt, first=INITIAL_BACKOFF_SECONDS, longest=MAX_BACKOFF_SECONDS)
    if isinstance(outcome, TransportFailure):
        return None if outcome.timed_out or (outcome.was_sent and not request.is_idempotent) else backoff
    # A 429 is sent before any work is done; with any other status the request may have taken effect.
    if outcome.status not in RETRYABLE_STATUSES or not (request.is_idempotent or outcome.status == 429):
        return None
    retry_after = outcome.headers.get("retry-after", "")
    seconds = float(retry_after) if retry_after.isdecimal() else backoff
    return seconds if seconds <= MAX_BACKOFF_SECONDS else None


def parse_response(server: str, request: ApiRequest, response: ApiResponse) -> Any:
    """The result of a response; raises the error it describes."""
    if (
        isinstance(request.result, ResponseParser)
        and (result := request.result.from_response(request, response)) is not None
    ):
        return result
    if not 200 <= response.status < 300:
        raise error_from_response(server, response)
    if request.result is None:
        return None
    try:
        return msgspec.json.decode(response.body, type=request.result)
    except msgspec.DecodeError as error:
        raise StokerError(
            ErrorCode.INTERNAL,
            f"The response of {server} to {request.method} {request.path} cannot be read: {error}.",
            hint="Check that this is a Stoker server, and that it is not much newer or older than this client.",
        ) from error


def error_from_response(server: str, response: ApiResponse) -> StokerError:
    """The error that a response describes."""
    code = _CODE_BY_STATUS.get(response.status, ErrorCode.INTERNAL)
    problem = parse_problem(response.body)
    if problem is None:
        return StokerError(
            code,
            f"{server} answered {response.status}, but not with an error of Stoker.",
            hint="Check that this is the address of a Stoker server, and check the proxy in front of it.",
        )
    retry_after = response.headers.get("retry-after", "")
    return StokerError(
        _CODE_BY_VALUE.get(problem.code, code),
        problem.message,
        hint=problem.hint,
        field=problem.field,
        retry_after_seconds=int(retry_after) if retry_after.isdecimal() else 0,
    )


def parse_problem(body: bytes | str) -> Problem | None:
    """The error in a body of the native or the management API; None if there is none."""
    try:
        envelope = msgspec.json.decode(body, type=_ErrorEnvelope)
    except msgspec.DecodeError:
        return None
    if envelope.error is not None:
        return envelope.error
    if not envelope.error_message:
        return None
    code = code_of_management_number(envelope.error_code)
    return Problem(code or "", envelope.error_message, "", "", "")
