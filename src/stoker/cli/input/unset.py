"""Options that were not given become fields that are not sent."""

from typing import TypeVar

from msgspec import UNSET, UnsetType

T = TypeVar("T")


def value_or_unset(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def quota_or_unset(value: str | None) -> str | UnsetType | None:
    """A quota; `none` removes the limit."""
    return None if value == "none" else value_or_unset(value)
