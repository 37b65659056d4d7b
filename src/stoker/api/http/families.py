"""The five API families: how each wraps a result and words an error. `contracts` of their documents hold here."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError

STATUS = {
    ErrorCode.INTERNAL: 500,
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.EXISTS: 409,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.BACKEND_DOWN: 503,
    ErrorCode.NEVER_FITS: 403,
    ErrorCode.NOT_SIGNED_IN: 401,
    ErrorCode.STATE_FORBIDS: 409,
    ErrorCode.TOO_MANY_REQUESTS: 429,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.HEADERS_TOO_LARGE: 431,
}
_SAFE_NUMBER = {
    ErrorCode.INTERNAL: 1,
    ErrorCode.BAD_REQUEST: 2,
    ErrorCode.NOT_ALLOWED: 3,
    ErrorCode.EXISTS: 4,
    ErrorCode.NOT_FOUND: 5,
    ErrorCode.TOO_LARGE: 6,
    ErrorCode.BACKEND_DOWN: 7,
    ErrorCode.NEVER_FITS: 8,
    ErrorCode.NOT_SIGNED_IN: 9,
    ErrorCode.STATE_FORBIDS: 10,
    ErrorCode.TOO_MANY_REQUESTS: 11,
    ErrorCode.METHOD_NOT_ALLOWED: 2,
    ErrorCode.HEADERS_TOO_LARGE: 2,
}

encode = msgspec.json.Encoder().encode


class SafeError(Struct, frozen=True, rename="camel"):
    error_code: str
    error_message: str


class LensError(Struct, frozen=True, rename="camel"):
    code: int
    message: str
    trace_id: str


class AggregationError(Struct, frozen=True):
    code: int
    message: str
    error: str


class RunaiError(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str
    details: str = ""


class Problem(Struct, frozen=True, rename="camel"):
    """What went wrong, as a program reads it, and what to do next, as a person does."""

    code: str
    message: str
    hint: str
    field: str
    trace_id: str


class NativeError(Struct, frozen=True):
    error: Problem


class Family(Struct, frozen=True):
    """`prefixes` decide who words the error of a path that no endpoint has."""

    name: str
    title: str
    prefixes: tuple[str, ...]
    success: Callable[[bytes, str], bytes]
    failure: Callable[[StokerError, int, str], Any]
    failure_type: type[Struct]
    envelope: dict[str, Any] | None = None
    snake_twins: bool = False
    dotted_words: bool = False
    """Whether a word of a list of words may come with the name of the list before it, as `SortOrder.asc`."""
    json_text: bool = False
    nameless: str = ""
    """What is said where the path leaves out the name of something; if nothing, there is nothing at that path."""


def _plain(result: bytes, trace_id: str) -> bytes:
    return result


def _lens_success(result: bytes, trace_id: str) -> bytes:
    return b'{"code":0,"message":"success","data":%b,"traceId":"%b"}' % (result, trace_id.encode())


def _aggregation_success(result: bytes, trace_id: str) -> bytes:
    return b'{"code":200,"message":"success","data":%b}' % result


def _sentence(error: StokerError) -> str:
    return f"{error.message} {error.hint}".strip()


def _aggregation_failure(error: StokerError, status: int, trace_id: str) -> AggregationError:
    if error.code is ErrorCode.BAD_REQUEST:
        return AggregationError(status, "Invalid request parameters", _sentence(error))
    return AggregationError(status, error.message, error.hint or str(error.code))


def _native_failure(error: StokerError, status: int, trace_id: str) -> NativeError:
    return NativeError(Problem(str(error.code), error.message, error.hint, error.field, trace_id))


SAFE = Family(
    "safe",
    "Manage workloads",
    ("/api/custom",),
    _plain,
    lambda error, status, trace_id: SafeError(f"Stoker.{_SAFE_NUMBER[error.code]:05d}", _sentence(error)),
    SafeError,
)
LENS = Family(
    "lens",
    "Monitor workloads and clusters",
    ("/api/workloads", "/api/workloadMetadata", "/api/clusters"),
    _lens_success,
    lambda error, status, trace_id: LensError(status, _sentence(error), trace_id),
    LensError,
    envelope={"code": 0, "message": "success", "data": None, "traceId": ""},
    snake_twins=True,
    nameless="workloadUid is required",
)
AGGREGATION = Family(
    "aggregation",
    "Hourly usage",
    ("/api/v1/gpu-aggregation",),
    _aggregation_success,
    _aggregation_failure,
    AggregationError,
    envelope={"code": 200, "message": "success", "data": None},
    snake_twins=True,
)
RUNAI = Family(
    "runai",
    "Run:ai compatible",
    ("/api/v1", "/api/v2", "/v1/k8s"),
    _plain,
    lambda error, status, trace_id: RunaiError(status, error.message, error.hint),
    RunaiError,
    dotted_words=True,
    json_text=True,
)
NATIVE = Family("native", "Stoker's own", ("/api/stoker",), _plain, _native_failure, NativeError)
_BY_PREFIX = sorted(
    ((prefix, family) for family in (SAFE, LENS, AGGREGATION, RUNAI, NATIVE) for prefix in family.prefixes),
    key=lambda pair: -len(pair[0]),
)


def family_of(path: str) -> Family:
    """Whose words an error at this path is in; outside any family, our own."""
    for prefix, family in _BY_PREFIX:
        if path == prefix or path.startswith(prefix + "/"):
            return family
    return NATIVE
