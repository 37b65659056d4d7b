"""One API call without the network: what is sent, whether it is sent again, and what the answer means.

Whoever holds a connection drives `converse`: it sends each `Request`, sleeps each `Pause`, and hands back
what came of it. So the sync and the async client cannot differ in anything but how they wait.
"""

from collections.abc import Generator, Mapping
from typing import Any, Protocol, Self, runtime_checkable

import msgspec
from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError

ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 10.0
PASSING = frozenset({429, 502, 503, 504})
_CODES = {code.value: code for code in ErrorCode}
_SAFE_CODES = {
    "Stoker.00001": ErrorCode.INTERNAL,
    "Stoker.00002": ErrorCode.BAD_REQUEST,
    "Stoker.00003": ErrorCode.NOT_ALLOWED,
    "Stoker.00004": ErrorCode.EXISTS,
    "Stoker.00005": ErrorCode.NOT_FOUND,
    "Stoker.00006": ErrorCode.TOO_LARGE,
    "Stoker.00007": ErrorCode.BACKEND_DOWN,
    "Stoker.00008": ErrorCode.NEVER_FITS,
    "Stoker.00009": ErrorCode.NOT_SIGNED_IN,
    "Stoker.00010": ErrorCode.STATE_FORBIDS,
    "Stoker.00011": ErrorCode.TOO_MANY_REQUESTS,
}
_CODE_OF_STATUS = {
    400: ErrorCode.BAD_REQUEST,
    401: ErrorCode.NOT_SIGNED_IN,
    403: ErrorCode.NOT_ALLOWED,
    404: ErrorCode.NOT_FOUND,
    405: ErrorCode.METHOD_NOT_ALLOWED,
    409: ErrorCode.STATE_FORBIDS,
    413: ErrorCode.TOO_LARGE,
    429: ErrorCode.TOO_MANY_REQUESTS,
    431: ErrorCode.HEADERS_TOO_LARGE,
    502: ErrorCode.BACKEND_DOWN,
    503: ErrorCode.BACKEND_DOWN,
    504: ErrorCode.BACKEND_DOWN,
}


class Unreachable(StokerError):  # noqa: N818 - it says what the server is
    """No server answered; or one did and `broke_off` in the middle."""

    def __init__(self, server: str, why: str, *, broke_off: bool = False) -> None:
        hint = "Check that it is running and that the address is right."
        if "CERTIFICATE_VERIFY_FAILED" in why:
            hint = "Name the certificate to trust in the environment: SSL_CERT_FILE=cert.pem"
        super().__init__(ErrorCode.BACKEND_DOWN, f"The server at {server} cannot be reached: {why}.", hint=hint)
        self.server = server
        self.broke_off = broke_off


class Request(Struct, frozen=True, kw_only=True):
    """`repeatable` says that sending it twice does what sending it once does.

    `quiet_seconds` is the longest silence of an answer that goes on; None is any.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    result: Any = None
    repeatable: bool = True
    quiet_seconds: float | None = None


class Pause(Struct, frozen=True):
    seconds: float


class Answer(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Lost(Struct, frozen=True):
    """No answer: `sent` when the server may have had the request, `late` when it was waited for long enough."""

    why: str
    sent: bool
    late: bool = False


@runtime_checkable
class ReadsAnswer(Protocol):
    """A result that is more than the body of a good answer; None leaves the answer to be read as any other."""

    @classmethod
    def of_answer(cls, request: Request, answer: Answer) -> Self | None: ...


class Problem(Struct, frozen=True):
    code: str
    message: str
    hint: str = ""
    field: str = ""


class _Failed(Struct, frozen=True, rename="camel"):
    """Our own words, or those of the family of workloads, whose message has the hint in it."""

    error: Problem | None = None
    error_code: str = ""
    error_message: str = ""


def converse(server: str, request: Request) -> Generator[Request | Pause, Answer | Lost | None, Any]:
    """What to do next, until there is a result or an error."""
    attempt = 1
    while True:
        came = yield request
        if came is None:
            raise TypeError("a request is followed by its answer")
        seconds = pause_before_repeating(request, came, attempt)
        if seconds is None:
            break
        yield Pause(seconds)
        attempt += 1
    if isinstance(came, Lost):
        raise Unreachable(server, came.why)
    if request.method == "DELETE" and attempt > 1 and came.status == 404:
        return None  # the attempt whose answer was lost had done it
    return read(server, request, came)


def pause_before_repeating(request: Request, came: Answer | Lost, attempt: int) -> float | None:
    """How long to wait before sending it again; None when this is how it ended."""
    if attempt >= ATTEMPTS:
        return None
    backoff = FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
    if isinstance(came, Lost):
        return None if came.late or (came.sent and not request.repeatable) else backoff
    # A 429 was turned away at the door; behind any other status some of the work may have been done.
    if came.status not in PASSING or not (request.repeatable or came.status == 429):
        return None
    asked = came.headers.get("retry-after", "")
    seconds = float(asked) if asked.isdecimal() else backoff
    return seconds if seconds <= LONGEST_PAUSE_SECONDS else None


def read(server: str, request: Request, answer: Answer) -> Any:
    """The result of an answer, or the error it holds."""
    if isinstance(request.result, ReadsAnswer) and (found := request.result.of_answer(request, answer)) is not None:
        return found
    if not 200 <= answer.status < 300:
        raise error_in(server, answer)
    if request.result is None:
        return None
    try:
        return msgspec.json.decode(answer.body, type=request.result)
    except msgspec.DecodeError as error:
        raise StokerError(
            ErrorCode.INTERNAL,
            f"The answer of {server} to {request.method} {request.path} cannot be read: {error}.",
            hint="Check that this is a Stoker server, and that it is not much newer or older than this client.",
        ) from error


def error_in(server: str, answer: Answer) -> StokerError:
    """The error that an answer holds."""
    code = _CODE_OF_STATUS.get(answer.status, ErrorCode.INTERNAL)
    problem = problem_in(answer.body)
    if problem is None:
        return StokerError(
            code,
            f"{server} answered {answer.status}, but not in Stoker's words.",
            hint="Check that this is the address of a Stoker server, or what stands in front of it.",
        )
    asked = answer.headers.get("retry-after", "")
    return StokerError(
        _CODES.get(problem.code, code),
        problem.message,
        hint=problem.hint,
        field=problem.field,
        retry_after_seconds=int(asked) if asked.isdecimal() else 0,
    )


def problem_in(body: bytes | str) -> Problem | None:
    """What went wrong, in our own words or in those of the family of workloads; None when it is neither."""
    try:
        failed = msgspec.json.decode(body, type=_Failed)
    except msgspec.DecodeError:
        return None
    if failed.error is not None:
        return failed.error
    return Problem(code_of(failed.error_code), failed.error_message) if failed.error_message else None


def code_of(safe_code: str) -> str:
    """`Stoker.00005` as the code it stands for."""
    return _SAFE_CODES.get(safe_code, "")


def safe_code(code: ErrorCode) -> str:
    return next((number for number, meant in _SAFE_CODES.items() if meant is code), "Stoker.00001")
