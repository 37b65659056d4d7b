"""Instants as clients send them."""

from stoker.domain.clock import parse_rfc3339
from stoker.domain.errors import bad_request


def instant(text: str, field: str) -> int:
    """Epoch milliseconds of an RFC 3339 time."""
    at = parse_rfc3339(text)
    if at is None:
        raise bad_request(field, f'"{text}" is not a time. Use RFC 3339, for example "2027-01-31T08:00:00.000Z".')
    return at


def optional_instant(text: str | None, field: str) -> int | None:
    return None if text is None else instant(text, field)
