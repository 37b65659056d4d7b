"""The one error a user can meet. Each API family renders it in its own words."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """What went wrong, as a program would ask it."""

    INTERNAL = "internal"
    BAD_REQUEST = "bad_request"
    NOT_ALLOWED = "not_allowed"
    EXISTS = "exists"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    BACKEND_DOWN = "backend_down"
    NEVER_FITS = "never_fits"
    NOT_SIGNED_IN = "not_signed_in"
    STATE_FORBIDS = "state_forbids"
    TOO_MANY_REQUESTS = "too_many_requests"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    HEADERS_TOO_LARGE = "headers_too_large"


class StokerError(Exception):
    """Says what happened, why, and what to do next."""

    def __init__(
        self, code: ErrorCode, message: str, *, hint: str = "", field: str = "", retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.field = field
        self.retry_after_seconds = retry_after_seconds


def bad_request(field: str, message: str, hint: str = "") -> StokerError:
    """A value that cannot be taken; the message begins with the name of the field."""
    return StokerError(ErrorCode.BAD_REQUEST, f"{field}: {message}", hint=hint, field=field)


def not_found(what: str, name: str) -> StokerError:
    """Absent, or hidden from the caller: the two look the same."""
    return StokerError(ErrorCode.NOT_FOUND, f'There is no {what} "{name}", or you may not see it.')


def exists(what: str, name: str) -> StokerError:
    return StokerError(ErrorCode.EXISTS, f'There is already a {what} "{name}". Choose another name.', field="name")
