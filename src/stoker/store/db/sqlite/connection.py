"""SQLite connections, transactions and errors, and the lock that gives one server the data dir."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import NO_PARAMS, Params, Row
from stoker.store.db.sqlite.bulk_insert import batch_inserts

DATABASE_FILE = "stoker.db"
BUSY_TIMEOUT_MS = 10_000
SET_BUSY_TIMEOUT = f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}"
CLEAR_BUSY_TIMEOUT = "PRAGMA busy_timeout = 0"
"""The writer thread waits for locks of other processes; the event loop does not."""
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 4_000
"""The writer has a large page cache and checkpoints the WAL in large portions."""
MMAP_BYTES = 2**31 - 2**16
"""The most that SQLite can map. Readers use the page cache of the kernel without copying."""
FAILURE_CODES = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOTADB,
}


class SqliteTransaction:
    shard = 0

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany

    def fetch_all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        return self._execute(sql, params).fetchall()

    def fetch_one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        return self._execute(sql, params).fetchone()

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        return self._execute(sql, params).rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        batches, rest = batch_inserts(sql, rows)
        count = sum(self._execute(batch.sql, batch.values).rowcount for batch in batches)
        return count + (self._executemany(sql, rest).rowcount if rest else 0)

    def execute_script(self, sql: str) -> None:
        """Execute several statements without parameters inside the open transaction."""
        statement = ""
        for line in sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._execute(statement)
                statement = ""
        if statement.strip():
            self._execute(statement)


class DataDirLock:
    """Held for the lifetime of a server, so that only one server uses a data dir."""

    def __init__(self, data_dir: Path) -> None:
        try:
            self._handle = os.open(data_dir / "stoker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise database_failure(error, data_dir / DATABASE_FILE) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 32).decode(errors="replace").strip()
            os.close(self._handle)
            raise StokerError(
                ErrorCode.CONFLICT,
                f"Another Stoker (process {holder or 'unknown'}) already uses {data_dir}.",
                hint="Stop it, or start this one with another --data-dir, or share a --database postgresql://…",
            ) from None
        with contextlib.suppress(OSError):  # on a full disk the lock holds without the process id
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._handle)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with Stoker's pragmas."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    connection.execute(SET_BUSY_TIMEOUT)
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA mmap_size = {MMAP_BYTES}")
        return connection
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.create_function("create_month_partitions", 1, lambda at: at)
    return connection


def is_database_failure(error: sqlite3.Error) -> bool:
    """Whether the database file failed, rather than the statement."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in FAILURE_CODES


def is_disk_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def database_failure(error: sqlite3.Error | OSError, path: Path) -> StokerError:
    """The user-facing error for a failure of the database file."""
    reason = error.strerror if isinstance(error, OSError) else error
    return StokerError(
        ErrorCode.UNAVAILABLE,
        f"The database {path} cannot be used: {reason}. Nothing of this request was saved.",
        hint="Check free space (df), permissions and the disk of the data dir.",
    )


class SqliteMigrator:
    """Runs the numbered migrations under SQLite's own write lock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def begin(self) -> SqliteTransaction:
        self._connection.execute("BEGIN IMMEDIATE")
        return SqliteTransaction(self._connection)

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._connection.execute("ROLLBACK")
