"""The SQLite store: one writer, a few reader threads, and a read connection for the event loop."""

import asyncio
import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import T, TransactionFn
from stoker.store.db.migrate import migrate
from stoker.store.db.sqlite.connection import (
    DATABASE_FILE,
    DataDirLock,
    SqliteMigrator,
    SqliteTransaction,
    connect,
    database_failure,
    is_database_failure,
)
from stoker.store.db.sqlite.disk_reserve import DiskReserve
from stoker.store.db.sqlite.writer import SqliteWriter

READER_THREADS = 4
MIN_START_BYTES = 2**20
"""Free space that opening the database may need."""


class SqliteStore:
    """The default store: a SQLite file in the data dir, used by one server."""

    def __init__(self, data_dir: Path, low_bytes: int = 0, reserve_bytes: int = 0) -> None:
        self.path = data_dir / DATABASE_FILE
        self._lock = DataDirLock(data_dir)
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release)
            self._disk_reserve = DiskReserve(data_dir, low_bytes, reserve_bytes)
            if self._disk_reserve.free_bytes() < MIN_START_BYTES:
                self._disk_reserve.release_reserve(self._wal_path)
            try:
                self._write_connection = undo.enter_context(contextlib.closing(connect(self.path)))
                migrate(SqliteMigrator(self._write_connection), "sqlite")
                self._inline_read_connection = connect(self.path, read_only=True)
                self._disk_reserve.ensure_reserve()
            except sqlite3.Error as error:
                raise database_failure(error, self.path) from error
            undo.pop_all()
        self._closed = False
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="store-read")
        self._read_connections: list[sqlite3.Connection] = []
        self._writer = SqliteWriter(self._write_connection, self.path, self._wal_path, self._disk_reserve)

    @property
    def name(self) -> str:
        return f"SQLite ({self.path})"

    @property
    def _wal_path(self) -> Path:
        return self.path.with_name(f"{DATABASE_FILE}-wal")

    def check_disk_space(self) -> None:
        self._disk_reserve.check_disk_space()

    async def write(self, change: TransactionFn[T]) -> T:
        self._check_open()
        return await self._writer.write(change)

    async def write_inline(self, change: TransactionFn[T]) -> T:
        self._check_open()
        return await self._writer.write_inline(change)

    async def read(self, query: TransactionFn[T]) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, query)

    async def read_inline(self, query: TransactionFn[T]) -> T:
        self._check_open()
        return self._query(self._inline_read_connection, query)

    async def close(self) -> None:
        """Finish queued writes, then close the file. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._readers.shutdown)
        for connection in (*self._read_connections, self._inline_read_connection, self._write_connection):
            connection.close()
        self._lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StokerError(ErrorCode.UNAVAILABLE, "Stoker is stopping; its database is closed.")

    def _read(self, query: TransactionFn[T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path, read_only=True)
            self._read_connections.append(connection)
        return self._query(connection, query)

    def _query(self, connection: sqlite3.Connection, query: TransactionFn[T]) -> T:
        try:
            connection.execute("BEGIN")
            try:
                return query(SqliteTransaction(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except StopIteration as error:  # a future cannot carry it
            raise RuntimeError("a query raised StopIteration") from error
        except sqlite3.Error as error:
            if is_database_failure(error):
                raise database_failure(error, self.path) from error
            raise
