"""Response headers, each described once and referred to by the responses that can have it."""

from typing import Any

from stoker.domain.errors import ErrorCode

TRACE_HEADER = "X-Trace-Id"
HEADERS = {
    TRACE_HEADER: ("string", "The trace id of this request: that of `traceparent` if it was sent, else a new one."),
    "Retry-After": ("integer", "Seconds to wait before the next attempt."),
    "WWW-Authenticate": ("string", "The scheme of the credential that is required: `Bearer`."),
    "X-Stoker-Stale": (
        "integer",
        "Only if the answer uses samples that are older than they should be: the age of the oldest in seconds.",
    ),
    "X-Workload-Ids": ("string", "The ids of the new workloads, comma-separated, in the order of the sources."),
    "X-Unchanged-Workload-Ids": (
        "string",
        "The ids of the workloads that had ended or were terminating already, comma-separated.",
    ),
    "Set-Cookie": ("string", "The session cookie: HttpOnly, SameSite=Strict, and Secure under TLS."),
    "Cache-Control": ("string", "Whether and for how long the response may be cached."),
    "Content-Disposition": ("string", "The file name, if the response is CSV or Parquet."),
    "Location": ("string", "Where a browser is redirected to."),
    "Vary": ("string", "The request headers that the response depends on."),
}
_ERROR_HEADERS = {
    ErrorCode.UNAUTHENTICATED: "WWW-Authenticate",
    ErrorCode.TOO_MANY_REQUESTS: "Retry-After",
    ErrorCode.UNAVAILABLE: "Retry-After",
}


def describe_headers() -> dict[str, Any]:
    return {
        name: {"description": description, "schema": {"type": kind}} for name, (kind, description) in HEADERS.items()
    }


def refer_to_headers(*names: str) -> dict[str, Any]:
    """References to the trace id and these headers."""
    return {name: {"$ref": f"#/components/headers/{name}"} for name in (TRACE_HEADER, *names)}


def error_headers(codes: list[ErrorCode], *more: str) -> dict[str, Any]:
    return refer_to_headers(*(_ERROR_HEADERS[code] for code in codes if code in _ERROR_HEADERS), *more)
