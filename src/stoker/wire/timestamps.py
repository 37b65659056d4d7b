"""Times of the API: RFC 3339 text in UTC with milliseconds, decoded to an aware `datetime`.

msgspec writes a `datetime` with zero or six decimals, so the server encodes times as `UtcTime`, which always has three.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

EXAMPLE_TIME = "2026-01-15T10:30:00.000Z"
UTC_SUFFIX = "+00:00"

Timestamp = Annotated[datetime, Meta(description="RFC 3339, UTC.", examples=[EXAMPLE_TIME])]


class UtcTime(datetime):
    """A time in UTC whose text has milliseconds and ends with Z."""

    def __str__(self) -> str:
        return self.isoformat(timespec="milliseconds").removesuffix(UTC_SUFFIX) + "Z"


_EPOCH = UtcTime(1970, 1, 1, tzinfo=UTC)


def to_timestamp(at: int) -> datetime:
    """Epoch milliseconds as a time of the API."""
    return _EPOCH + timedelta(milliseconds=at)


def to_optional_timestamp(at: int | None) -> datetime | None:
    return None if at is None else to_timestamp(at)


def encode_timestamp(value: object) -> str:
    """Hook of a msgspec encoder: the text of a `UtcTime`."""
    if isinstance(value, UtcTime):
        return str(value)
    raise NotImplementedError(f"objects of type {type(value).__name__} cannot be encoded")
