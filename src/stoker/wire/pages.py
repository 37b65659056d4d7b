"""Pages of lists. `next_cursor` is where the following page begins, None on the last page."""

from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class PageView(Struct, Generic[T], frozen=True):
    """Some of the items; `next` is the offset of the following page, null on the last."""

    items: tuple[T, ...]
    total: int
    next: int | None

    def next_cursor(self, start: str) -> int | None:
        return self.next


# The page of the management API, whose document gives it no description.
class CountedPage(Struct, Generic[T], frozen=True, rename="camel"):
    total_count: int
    items: tuple[T, ...]

    @property
    def total(self) -> int:
        return self.total_count

    def next_cursor(self, start: str) -> int | None:
        """The offset after this page, which began at `start`."""
        end = int(start) + len(self.items)
        return end if self.items and end < self.total_count else None
