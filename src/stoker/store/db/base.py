"""The database interface: `Store` and `Transaction`.

A write is a function over a transaction. It must have no side effects besides SQL, because SQLite commits it
together with other writes and PostgreSQL may run it again. When `write` returns, the change is durable.
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

    shard: int
    """Identifies the connection among those that write concurrently."""

    def fetch_all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        """All rows of a query."""
        ...

    def fetch_one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        """The first row of a query, or None."""
        ...

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Execute a statement; returns the number of affected rows."""
        ...

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        """Execute a statement once per parameter row; returns the total number of affected rows."""
        ...


TransactionFn = Callable[[Transaction], T]


class Store(Protocol):
    @property
    def name(self) -> str:
        """Display name of the database, with its address."""
        ...

    async def write(self, change: TransactionFn[T]) -> T:
        """Run a change in a transaction of its own; returns after the commit is durable."""
        ...

    async def write_inline(self, change: TransactionFn[T]) -> T:
        """Like `write`, for a change of a few rows; runs on the caller's thread where possible."""
        ...

    async def read(self, query: TransactionFn[T]) -> T:
        """Run a query of any duration on one consistent snapshot."""
        ...

    async def read_inline(self, query: TransactionFn[T]) -> T:
        """Run a query of a few indexed lookups; runs on the caller's thread where possible."""
        ...

    def check_disk_space(self) -> None:
        """Raise an error if the disk is nearly full. Call it before writes that add data, not before writes that
        stop or delete something."""
        ...

    async def close(self) -> None: ...


INLINE_MAX_PODS = 64
"""Reads and writes of at most this many pods run inline."""


def writer_for(store: Store, pods: int) -> Callable[[TransactionFn[T]], Awaitable[T]]:
    """The write method for a change of this many pods."""
    return store.write_inline if pods <= INLINE_MAX_PODS else store.write


def reader_for(store: Store, pods: int) -> Callable[[TransactionFn[T]], Awaitable[T]]:
    """The read method for a lookup of this many pods."""
    return store.read_inline if pods <= INLINE_MAX_PODS else store.read


def has_disk_space(store: Store) -> bool:
    """Whether the disk has space for data that Stoker can do without, such as logs and samples."""
    try:
        store.check_disk_space()
    except StokerError:
        return False
    return True
