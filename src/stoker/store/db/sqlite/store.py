"""SQLite: one that writes, a few reader threads, one connection for the event loop."""

import asyncio
import contextlib
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.base import Change, T
from stoker.store.disk import Disk
from stoker.store.migrate import migrate
from stoker.store.sqlite_file import FILE, DataDirLock, Migrator, SqliteTransaction, connect, is_failure, unwritable
from stoker.store.sqlite_writer import Writer

READERS = 4
START_BYTES = 2**20
"""What opening the database may need."""


class SqliteStore:
    """The embedded default: a file in the data dir."""

    def __init__(self, data_dir: Path, low_bytes: int = 0, reserve_bytes: int = 0) -> None:
        self.path = data_dir / FILE
        self._lock = DataDirLock(data_dir)
        with contextlib.ExitStack() as undo:
            undo.callback(self._lock.release)
            self._disk = Disk(data_dir, low_bytes, reserve_bytes)
            if self._disk.free() < START_BYTES:
                self._disk.release(self._log)
            try:
                self._writing = undo.enter_context(contextlib.closing(connect(self.path)))
                migrate(Migrator(self._writing), "sqlite")
                self._peeking = connect(self.path, read_only=True)
                self._disk.hold()
            except sqlite3.Error as error:
                raise unwritable(error, self.path) from error
            undo.pop_all()
        self._closed = False
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        self._reading: list[sqlite3.Connection] = []
        self._writer = Writer(self._writing, self.path, self._log, self._disk)

    @property
    def name(self) -> str:
        return f"SQLite ({self.path})"

    @property
    def _log(self) -> Path:
        return self.path.with_name(f"{FILE}-wal")

    def check_room(self) -> None:
        self._disk.check_room()

    async def write(self, change: Change[T]) -> T:
        self._refuse_when_closed()
        return await self._writer.write(change)

    async def poke(self, change: Change[T]) -> T:
        self._refuse_when_closed()
        return await self._writer.poke(change)

    async def read(self, query: Change[T]) -> T:
        self._refuse_when_closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, query)

    async def peek(self, query: Change[T]) -> T:
        self._refuse_when_closed()
        return self._query(self._peeking, query)

    async def close(self) -> None:
        """Finish what is queued, then let go of the file; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        await self._writer.close()
        await asyncio.get_running_loop().run_in_executor(None, self._readers.shutdown)
        for connection in (*self._reading, self._peeking, self._writing):
            connection.close()
        self._lock.release()

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise StokerError(ErrorCode.BACKEND_DOWN, "Stoker is stopping; its database is closed.")

    def _read(self, query: Change[T]) -> T:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = connect(self.path, read_only=True)
            self._reading.append(connection)
        return self._query(connection, query)

    def _query(self, connection: sqlite3.Connection, query: Change[T]) -> T:
        try:
            connection.execute("BEGIN")
            try:
                return query(SqliteTransaction(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
        except StopIteration as error:  # which a future cannot carry
            raise RuntimeError("a query let StopIteration out") from error
        except sqlite3.Error as error:
            if is_failure(error):
                raise unwritable(error, self.path) from error
            raise
