"""Threads that run transactions, each with a PostgreSQL connection of its own.

A thread reopens its connection after losing it, so no pool has to notice that the server went away or came back.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import T, TransactionFn
from stoker.store.db.postgres.connection import PostgresConnection


class ConnectionThreads:
    """A thread pool of at most `size` connections."""

    def __init__(self, name: str, size: int, open_connection: Callable[[], PostgresConnection]) -> None:
        self._open_connection = open_connection
        self._threads = ThreadPoolExecutor(max(1, size), thread_name_prefix=f"store-{name}")
        self._local = threading.local()
        self._connections: set[PostgresConnection] = set()

    async def run(self, work: Callable[[TransactionFn[T]], T], change: TransactionFn[T]) -> T:
        try:
            future = self._threads.submit(work, change)
        except RuntimeError:
            raise StokerError(ErrorCode.UNAVAILABLE, "Stoker is stopping; its database is closed.") from None
        return await asyncio.wrap_future(future)

    def connection(self) -> tuple[PostgresConnection, bool]:
        """The connection of the calling thread, and whether it was opened before this call."""
        connection: PostgresConnection | None = getattr(self._local, "connection", None)
        if connection is not None and not connection.closed:
            return connection, True
        if connection is not None:
            self._connections.discard(connection)
        self._local.connection = connection = self._open_connection()
        self._connections.add(connection)
        return connection, False

    def begin(self, statement: bytes) -> PostgresConnection:
        """Begin a transaction on this thread's connection; reconnects once if the server has been restarted."""
        connection, used = self.connection()
        try:
            connection.execute(statement)
        except psycopg.OperationalError:
            if not (used and connection.closed):
                raise
            connection, _ = self.connection()  # nothing was in progress, so nothing is lost
            connection.execute(statement)
        return connection

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()
