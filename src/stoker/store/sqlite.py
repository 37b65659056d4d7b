"""SQLite: one writer thread with group commit, a few reader threads, one connection for the event loop.

All writes that wait while a commit is under way share the next one; each has a savepoint, so one that
fails takes nothing with it. A write is answered after the commit that carries it is on disk.

A thread that shares the interpreter with a busy event loop waits for its turn at every step of every statement. So what
is short is read and written on the event loop itself, which leaves only the commit to a thread; whoever has `_turn`
writes. What cannot be written there is handed to the writer, who knows what to do about it: only the writer waits for
another process that has locked the database.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.base import NO_PARAMS, Change, Params, Row, T
from stoker.store.disk import Disk
from stoker.store.migrate import migrate
from stoker.store.sqlite_rows import in_steps

FILE = "stoker.db"
READERS = 4
BATCH = 256
BATCH_SECONDS = 0.02
POKE_SECONDS = 0.005
"""For how long the event loop writes at a time, before it goes on while that is committed."""
BUSY_MS = 10_000
PATIENTLY = f"PRAGMA busy_timeout = {BUSY_MS}"
AT_ONCE = "PRAGMA busy_timeout = 0"
"""How to wait for a lock: the event loop does not."""
CACHE_KIB = 64 * 1024
CHECKPOINT_PAGES = 4_000
"""The writer keeps what it changes often in memory, and moves it from the log to the file in larger portions."""
MAPPED_BYTES = 2**31 - 2**16
"""As much of the file as SQLite can map: readers look at what the system has in memory, and copy none of it."""
START_BYTES = 2**20
"""What opening the database may need."""
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

log = logging.getLogger("stoker.store")


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


class _Job:
    __slots__ = ("change", "error", "future", "loop", "result")

    def __init__(self, change: Callable[[Any], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.change = change
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.result: object = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.future.cancelled():
            return
        if isinstance(self.error, StopIteration):  # which a future cannot carry
            self.error = RuntimeError("a change let StopIteration out")
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


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
                migrate(_Migrator(self._writing), "sqlite")
                self._writing.execute(AT_ONCE)
                self._peeking = connect(self.path, read_only=True)
                self._disk.hold()
            except sqlite3.Error as error:
                raise unwritable(error, self.path) from error
            undo.pop_all()
        self._closed = False
        self._local = threading.local()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="store-read")
        self._reading: list[sqlite3.Connection] = []
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._pokes: deque[_Job] = deque()
        self._turn = threading.Lock()
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="store-commit")
        self._writer = threading.Thread(target=self._write_forever, name="store-write", daemon=True)
        self._writer.start()

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
        job = _Job(change, asyncio.get_running_loop())
        self._jobs.put(job)
        return await job.future

    async def poke(self, change: Change[T]) -> T:
        self._refuse_when_closed()
        job = _Job(change, asyncio.get_running_loop())
        self._pokes.append(job)
        job.loop.call_soon(self._poke)
        return await job.future

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
        self._hand_over(self._pokes)
        self._pokes.clear()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._committer.shutdown)
        self._jobs.put(None)  # behind what could not be committed
        await loop.run_in_executor(None, self._writer.join)
        await loop.run_in_executor(None, self._readers.shutdown)
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

    def _write_forever(self) -> None:
        stopping = False
        while not stopping and (job := self._jobs.get()) is not None:
            batch = [job]
            self._turn.acquire()
            error = self._try(batch)
            if error is not None and is_full(error) and self._disk.release(self._log):
                log.warning("the disk of %s is full: its reserve was given up", self.path.parent)
                error = self._try(batch)
            if error is not None:
                for lost in batch:
                    lost.error = unwritable(error, self.path)
            else:
                self._disk.hold()
            stopping = self._deliver(batch)
            self._pass_on()

    def _pass_on(self) -> None:
        """From the writer, who would otherwise take the turn again at once: to the event loop, if something waits."""
        with contextlib.suppress(IndexError, RuntimeError):
            self._pokes[0].loop.call_soon_threadsafe(self._write_short)
            return
        self._turn.release()
        self._wake()

    def _poke(self) -> None:
        """On the event loop: write what is short, unless somebody else writes; they call again when they are done."""
        if self._pokes and self._turn.acquire(blocking=False):
            self._write_short()

    def _write_short(self) -> None:
        """On the event loop, which has the turn."""
        if not self._pokes:  # the writer has them: the store is closed
            self._turn.release()
            return
        transaction = SqliteTransaction(self._writing)
        batch: list[_Job] = []
        try:
            self._writing.execute("BEGIN IMMEDIATE")
            until = time.monotonic() + POKE_SECONDS
            while self._pokes and len(batch) < BATCH and (not batch or time.monotonic() < until):
                batch.append(self._pokes.popleft())
                self._run(batch[-1], transaction)
            self._committer.submit(self._finish, batch)
        except (sqlite3.Error, RuntimeError):  # of the database, or there can be no thread
            self._give_up(batch or [self._pokes.popleft()])

    def _finish(self, batch: list[_Job]) -> None:
        """Beside the event loop: commit what it wrote."""
        try:
            self._writing.execute("COMMIT")
        except sqlite3.Error:
            self._give_up(batch)
            return
        self._disk.hold()
        self._turn.release()
        self._deliver(batch)
        self._wake()

    def _give_up(self, batch: list[_Job]) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._writing.execute("ROLLBACK")
        self._turn.release()
        self._hand_over(batch)
        self._wake()

    def _hand_over(self, batch: Iterable[_Job]) -> None:
        for job in batch:
            self._jobs.put(job)

    def _wake(self) -> None:
        """Whoever has written lets the event loop write what came meanwhile."""
        with contextlib.suppress(IndexError, RuntimeError):  # there is nothing, or nobody who could
            self._pokes[0].loop.call_soon_threadsafe(self._poke)

    def _try(self, batch: list[_Job]) -> sqlite3.Error | None:
        """Commit these, or undo all of them; what was in the way."""
        try:
            self._commit(batch)
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._writing.execute("ROLLBACK")
            return error
        return None

    def _commit(self, batch: list[_Job]) -> None:
        """Run these jobs and those behind them, and commit them together."""
        execute = self._writing.execute
        transaction = SqliteTransaction(self._writing)
        execute(PATIENTLY)
        try:
            execute("BEGIN IMMEDIATE")
        finally:
            execute(AT_ONCE)
        until = time.monotonic() + BATCH_SECONDS
        position = 0
        while position < len(batch):
            self._run(batch[position], transaction)
            position += 1
            if position == len(batch) and position < BATCH and time.monotonic() < until:
                with contextlib.suppress(queue.Empty):
                    following = self._jobs.get_nowait()
                    if following is None:
                        self._jobs.put(None)
                        break
                    batch.append(following)
        execute("COMMIT")

    def _run(self, job: _Job, transaction: SqliteTransaction) -> None:
        execute = self._writing.execute
        job.result = job.error = None
        execute("SAVEPOINT job")
        try:
            job.result = job.change(transaction)
        except sqlite3.Error as error:
            if is_full(error) or not self._writing.in_transaction:
                raise
            job.error = unwritable(error, self.path) if is_failure(error) else error
        except BaseException as error:
            job.error = error
        if job.error is not None:
            execute("ROLLBACK TO job")
        execute("RELEASE job")

    def _deliver(self, batch: list[_Job]) -> bool:
        """Hand the results over; True when nobody is left to receive any."""

        def settle() -> None:
            for job in batch:
                job.settle()

        if batch:
            try:
                batch[0].loop.call_soon_threadsafe(settle)
            except RuntimeError:  # the loop is closed: the server has gone
                return True
        return False


class _Migrator:
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
