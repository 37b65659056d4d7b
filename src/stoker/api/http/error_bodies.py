"""Error bodies of the API families, and the HTTP status of each error code.

Every error that a caller sees is one `StokerError`; a family only renders it.
"""

from msgspec import Struct
from starlette.requests import HTTPConnection

from stoker.domain.errors import ErrorCode, StokerError
from stoker.wire.errors import NativeError, Problem, management_error_number

HTTP_STATUS = {
    ErrorCode.INTERNAL: 500,
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.FORBIDDEN: 403,
    ErrorCode.ALREADY_EXISTS: 409,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.TOO_LARGE: 413,
    ErrorCode.UNAVAILABLE: 503,
    ErrorCode.UNSCHEDULABLE: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.CONFLICT: 409,
    ErrorCode.TOO_MANY_REQUESTS: 429,
    ErrorCode.METHOD_NOT_ALLOWED: 405,
    ErrorCode.HEADERS_TOO_LARGE: 431,
}


class ManagementError(Struct, frozen=True, rename="camel"):
    error_code: str
    error_message: str


class MonitoringError(Struct, frozen=True, rename="camel"):
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


def management_error(error: StokerError, status: int, trace_id: str) -> ManagementError:
    return ManagementError(management_error_number(error.code), message_with_hint(error))


def monitoring_error(error: StokerError, status: int, trace_id: str) -> MonitoringError:
    return MonitoringError(status, message_with_hint(error), trace_id)


def aggregation_error(error: StokerError, status: int, trace_id: str) -> AggregationError:
    if error.code is ErrorCode.BAD_REQUEST:
        return AggregationError(status, "Invalid request parameters", message_with_hint(error))
    return AggregationError(status, error.message, error.hint or str(error.code))


def runai_error(error: StokerError, status: int, trace_id: str) -> RunaiError:
    return RunaiError(status, error.message, error.hint)


def native_error(error: StokerError, status: int, trace_id: str) -> NativeError:
    return NativeError(Problem(str(error.code), error.message, error.hint, error.field, trace_id))


def message_with_hint(error: StokerError) -> str:
    return f"{error.message} {error.hint}".strip()


def write_outcome_unknown(reason: str, request: HTTPConnection, *, idempotent: bool) -> StokerError:
    """The error of a write that may or may not have been committed, with how the caller can find out."""
    if not idempotent:
        hint = "Read the current state with GET before you send the request again."
    elif "idempotency-key" in request.headers:
        hint = "Repeat the request with the same Idempotency-Key: it takes effect once and returns the first response."
    else:
        hint = (
            "Check with GET whether the object exists before you send the request again. With an Idempotency-Key the "
            "request could be repeated safely."
        )
    message = f"{reason} The outcome is unknown: the request may still take effect."
    return StokerError(ErrorCode.UNAVAILABLE, message, hint=hint)
