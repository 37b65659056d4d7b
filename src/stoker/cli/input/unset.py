"""An option that was not given is a field that is not sent."""

from typing import TypeVar

from msgspec import UNSET, UnsetType

T = TypeVar("T")


def given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def limit(value: str | None) -> str | UnsetType | None:
    """A quota: `none` takes the limit away."""
    return None if value == "none" else given(value)
