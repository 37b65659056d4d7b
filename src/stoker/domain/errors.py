"""The error type for everything that a user can cause. Each API family renders it in its own format."""

from enum import StrEnum


class ErrorCode(StrEnum):
    """Machine-readable error codes."""

    INTERNAL = "internal"
    BAD_REQUEST = "bad_request"
    FORBIDDEN = "not_allowed"
    ALREADY_EXISTS = "exists"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    UNAVAILABLE = "unavailable"
    UNSCHEDULABLE = "unschedulable"
    UNAUTHENTICATED = "not_signed_in"
    CONFLICT = "conflict"
    TOO_MANY_REQUESTS = "too_many_requests"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    HEADERS_TOO_LARGE = "headers_too_large"


class StokerError(Exception):
    """An error with a code, a message, and a hint what to do next."""

    def __init__(
        self, code: ErrorCode, message: str, *, hint: str = "", field: str = "", retry_after_seconds: int = 0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.field = field
        self.retry_after_seconds = retry_after_seconds

    def with_field(self, field: str, hint: str = "") -> "StokerError":
        """The same error under another field name; a message that begins with the field begins with the new name."""
        prefix = f"{self.field}: "
        message = self.message
        if message.startswith(prefix):
            message = f"{field}: {message.removeprefix(prefix)}"
        return StokerError(
            self.code, message, hint=self.hint or hint, field=field, retry_after_seconds=self.retry_after_seconds
        )


def bad_request(field: str, message: str, hint: str = "") -> StokerError:
    """An invalid value; the message begins with the name of the field."""
    return StokerError(ErrorCode.BAD_REQUEST, f"{field}: {message}", hint=hint, field=field)


def not_found(what: str, name: str) -> StokerError:
    """Absent or hidden from the caller; both give the same error."""
    return StokerError(ErrorCode.NOT_FOUND, f'There is no {what} "{name}", or you may not see it.')


def already_exists(what: str, name: str) -> StokerError:
    return StokerError(
        ErrorCode.ALREADY_EXISTS, f'There is already a {what} "{name}". Choose another name.', field="name"
    )
