"""Errors of the native API, and the error numbers of the management API."""

from msgspec import Struct

from stoker.domain.errors import ErrorCode

MANAGEMENT_ERROR_NUMBERS = {
    ErrorCode.INTERNAL: 1,
    ErrorCode.BAD_REQUEST: 2,
    ErrorCode.FORBIDDEN: 3,
    ErrorCode.ALREADY_EXISTS: 4,
    ErrorCode.NOT_FOUND: 5,
    ErrorCode.TOO_LARGE: 6,
    ErrorCode.UNAVAILABLE: 7,
    ErrorCode.UNSCHEDULABLE: 8,
    ErrorCode.UNAUTHENTICATED: 9,
    ErrorCode.CONFLICT: 10,
    ErrorCode.TOO_MANY_REQUESTS: 11,
    ErrorCode.METHOD_NOT_ALLOWED: 2,
    ErrorCode.HEADERS_TOO_LARGE: 2,
}


class Problem(Struct, frozen=True, rename="camel"):
    """An error: `code` for programs, message and hint for people."""

    code: str
    message: str
    hint: str
    field: str
    trace_id: str


class NativeError(Struct, frozen=True):
    error: Problem


def management_error_number(code: ErrorCode) -> str:
    """The code in the management API, such as `Stoker.00005`."""
    return f"Stoker.{MANAGEMENT_ERROR_NUMBERS[code]:05d}"


def code_of_management_number(number: str) -> ErrorCode | None:
    """The error code of a number such as `Stoker.00005`; the first one where several share a number."""
    return _CODE_BY_NUMBER.get(number)


_CODE_BY_NUMBER = {management_error_number(code): code for code in reversed(MANAGEMENT_ERROR_NUMBERS)}
