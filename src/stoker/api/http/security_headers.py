"""Security headers of all responses: no type sniffing, referrer, frames or loading of other content."""

from starlette.datastructures import MutableHeaders

SECURITY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
RAW_SECURITY_HEADERS = [(name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]
"""For responses that are written without a response object."""


def add_security_headers(headers: MutableHeaders) -> None:
    """Add the headers that a response does not set itself: the docs page has a policy of its own."""
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)
