"""The one interface to the database.

A write is a function over a transaction. It holds nothing but SQL, because it shares its commit with
others on SQLite and may be run again on PostgreSQL. When `write` returns, the change is on disk.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from stoker.domain.errors import StokerError

T = TypeVar("T")
Row = tuple[Any, ...]
Params = Mapping[str, object]
NO_PARAMS: Params = {}


class Transaction(Protocol):
    """Statements with `:name` parameters, inside one transaction."""

    lane: int
    """Which connection this is, of those that write at the same time."""

    def all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """Every row."""
        ...

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        """The first row, or None."""
        ...

    def run(self, sql: str, params: Params = NO_PARAMS) -> int:
        """How many rows the statement changed."""
        ...

    def many(self, sql: str, rows: Sequence[Params]) -> int:
        """The same statement for each of the rows; how many rows were changed in all."""
        ...


Change = Callable[[Transaction], T]


class Store(Protocol):
    @property
    def name(self) -> str:
        """What the database is, as a user would say it."""
        ...

    async def write(self, change: Change[T]) -> T:
        """Run the change in a transaction of its own; returns once it is durable."""
        ...

    async def poke(self, change: Change[T]) -> T:
        """The same for a change of a few rows, without leaving the caller's thread where possible."""
        ...

    async def read(self, query: Change[T]) -> T:
        """Run a query of any length over one consistent view."""
        ...

    async def peek(self, query: Change[T]) -> T:
        """Run a query that is a few indexed look-ups, without leaving the caller's thread where possible."""
        ...

    def check_room(self) -> None:
        """Refuse to take on more while there is little room for it. Whatever ends or removes something is written
        all the same."""
        ...

    async def close(self) -> None: ...


FEW = 64
"""So many pods are a change of a few rows."""


def writing(store: Store, pods: int) -> Callable[[Change[T]], Awaitable[T]]:
    """How a change of so many pods is written."""
    return store.poke if pods <= FEW else store.write


def reading(store: Store, pods: int) -> Callable[[Change[T]], Awaitable[T]]:
    """How so many pods are looked up."""
    return store.peek if pods <= FEW else store.read


def has_room(store: Store) -> bool:
    """Whether more may be taken on; if not, a disk that runs full is left to what matters more."""
    try:
        store.check_room()
    except StokerError:
        return False
    return True
