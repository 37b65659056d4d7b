"""The file of SQLite: who may use it, how it is opened, what a transaction is, and which failures are its own."""

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.base import NO_PARAMS, Params, Row
from stoker.store.sqlite_rows import in_steps

FILE = "stoker.db"
BUSY_MS = 10_000
PATIENTLY = f"PRAGMA busy_timeout = {BUSY_MS}"
AT_ONCE = "PRAGMA busy_timeout = 0"
"""How to wait for a lock: the event loop does not."""
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 4_000
"""The writer keeps what it changes often in memory, and moves it from the log to the file in larger portions."""
MAPPED_BYTES = 2**31 - 2**16
"""As much of the file as SQLite can map: readers look at what the system has in memory, and copy none of it."""
FAILURES = {
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
    lane = 0

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany

    def all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        return self._execute(sql, params).fetchall()

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        return self._execute(sql, params).fetchone()

    def run(self, sql: str, params: Params = NO_PARAMS) -> int:
        return self._execute(sql, params).rowcount

    def many(self, sql: str, rows: Sequence[Params]) -> int:
        steps, left = in_steps(sql, rows)
        done = sum(self._execute(step.sql, step.values).rowcount for step in steps)
        return done + (self._executemany(sql, left).rowcount if left else 0)

    def script(self, sql: str) -> None:
        """Several statements without parameters, inside the transaction that is open."""
        statement = ""
        for line in sql.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                self._execute(statement)
                statement = ""
        if statement.strip():
            self._execute(statement)


class DataDirLock:
    """Held for the life of a server, so that a data dir never has two."""

    def __init__(self, data_dir: Path) -> None:
        try:
            self._handle = os.open(data_dir / "stoker.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unwritable(error, data_dir / FILE) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._handle, 32).decode(errors="replace").strip()
            os.close(self._handle)
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f"Another Stoker (process {holder or 'unknown'}) already uses {data_dir}.",
                hint="Stop it, or start this one with another --data-dir, or share a --database postgresql://…",
            ) from None
        with contextlib.suppress(OSError):  # a full disk: the lock holds, only its owner's number is missing
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        os.close(self._handle)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection set up as every connection of Stoker is."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=512)
    connection.execute(PATIENTLY)
    if read_only:
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
        return connection
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    connection.create_function("make_month", 1, lambda at: at)
    return connection


def is_failure(error: sqlite3.Error) -> bool:
    """Whether the file failed, and not the statement."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF in FAILURES


def is_full(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}


def unwritable(error: sqlite3.Error | OSError, path: Path) -> StokerError:
    """A failure of the file itself, said so that its owner can act."""
    reason = error.strerror if isinstance(error, OSError) else error
    return StokerError(
        ErrorCode.BACKEND_DOWN,
        f"The database {path} cannot be used: {reason}. Nothing of this request was kept.",
        hint="Check free space (df), permissions and the disk of the data dir.",
    )


class Migrator:
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
