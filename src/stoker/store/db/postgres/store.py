"""The PostgreSQL store: every write is a SERIALIZABLE transaction, retried after a serialization failure.

Writes, reads and inline reads have separate threads, so a burst of one kind does not delay the others. A commit
whose outcome is unknown is reported and never retried.
"""

import asyncio
import contextlib
import threading
import time

import psycopg

from stoker.concurrency.retry import backoff_seconds
from stoker.store.db.base import T, TransactionFn
from stoker.store.db.migrate import migrate
from stoker.store.db.postgres.connection import (
    PostgresConnection,
    PostgresTransaction,
    connect,
    roll_back,
)
from stoker.store.db.postgres.errors import address_of, parse_url
from stoker.store.db.postgres.threads import ConnectionThreads

BEGIN_WRITE = b"BEGIN ISOLATION LEVEL SERIALIZABLE"
BEGIN_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
MIGRATION_LOCK = b"SELECT pg_advisory_xact_lock(6013418820041)"

SERIALIZATION_ERRORS = {"40001", "40P01"}
MAX_TRIES = 20
RETRY_WINDOW_SECONDS = 10.0
UNIQUE_VIOLATION = "23505"
MAX_UNIQUE_TRIES = 3
MAX_PAUSE_SECONDS = 0.05

SERVER_ERROR_CLASSES = {"08", "53", "57", "58", "XX"}
READ_ONLY_SQLSTATE = "25006"


class _RetryPolicy:
    """Decides how often a write is retried, and after what pause."""

    def __init__(self) -> None:
        self.tries = 0
        self._unique_violations = 0
        self._retry_until = time.monotonic() + RETRY_WINDOW_SECONDS

    def should_retry(self, cause: BaseException) -> bool:
        """Whether a write that failed with this cause is retried."""
        self.tries += 1
        state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
        if state == UNIQUE_VIOLATION:  # the change checks for duplicates itself, so another write came first
            self._unique_violations += 1
            return self._unique_violations < MAX_UNIQUE_TRIES
        self._unique_violations = 0
        return state in SERIALIZATION_ERRORS and (self.tries < MAX_TRIES or time.monotonic() < self._retry_until)

    def backoff_seconds(self) -> float:
        return backoff_seconds(self.tries, first=0.002, longest=MAX_PAUSE_SECONDS, jitter=1.0)


class PostgresStore:
    """A PostgreSQL database that several servers may share; uses at most `pool` connections, at least three."""

    def __init__(self, url: str, pool: int) -> None:
        self._options = parse_url(url)
        self._address = address_of(self._options)
        self._migrate()
        writers, readers = pool // 2, pool // 4
        self._writers = ConnectionThreads("write", writers, self._connect)
        self._readers = ConnectionThreads("read", readers, self._connect)
        self._inline_readers = ConnectionThreads("read-inline", pool - writers - readers, self._connect)
        self._retry_lock = threading.Lock()

    @property
    def name(self) -> str:
        return f"PostgreSQL ({self._address})"

    async def write(self, change: TransactionFn[T]) -> T:
        return await self._writers.run(self._write, change)

    async def write_inline(self, change: TransactionFn[T]) -> T:
        return await self.write(change)

    async def read(self, query: TransactionFn[T]) -> T:
        return await self._readers.run(self._read, query)

    async def read_inline(self, query: TransactionFn[T]) -> T:
        return await self._inline_readers.run(self._read_inline, query)

    def check_disk_space(self) -> None:
        """Does nothing: PostgreSQL reports a full disk itself."""

    async def close(self) -> None:
        """Finish queued work, then close the connections."""
        loop = asyncio.get_running_loop()
        for threads in (self._writers, self._readers, self._inline_readers):
            await loop.run_in_executor(None, threads.close)

    def _connect(self) -> PostgresConnection:
        try:
            return connect(self._options)
        except psycopg.Error as error:
            raise self._address.unreachable(str(error)) from error

    def _migrate(self) -> None:
        """Check the server's version and encoding, then migrate the schema."""
        with contextlib.closing(self._connect()) as connection:
            info = connection.info
            if unsupported := self._address.unsupported(
                info.server_version, info.parameter_status("server_encoding") or "unknown"
            ):
                raise unsupported
            try:
                migrate(_PostgresMigrator(connection), "postgres")
            except psycopg.errors.InsufficientPrivilege as error:
                raise self._address.no_privilege(str(error)) from error
            except psycopg.Error as error:
                raise self._address.connection_lost(str(error)) from error

    def _write(self, change: TransactionFn[T]) -> T:
        retry = _RetryPolicy()
        while True:
            # Retries of this process run one at a time; otherwise every commit would fail all the others again.
            with self._retry_lock if retry.tries else contextlib.nullcontext():
                connection = self._begin(self._writers, BEGIN_WRITE)
                transaction = PostgresTransaction(connection)
                try:
                    result = change(transaction)
                    if transaction.failure is not None:
                        raise transaction.failure
                    self._commit(connection)
                    return result
                except BaseException as error:
                    roll_back(connection)
                    if not retry.should_retry(transaction.failure or error):
                        if failure := self._translate_error(error, retry.tries):
                            raise failure from error
                        raise
            time.sleep(retry.backoff_seconds())

    def _read(self, query: TransactionFn[T]) -> T:
        connection = self._begin(self._readers, BEGIN_READ)
        try:
            result = query(PostgresTransaction(connection))
            connection.execute(b"COMMIT")
            return result
        except BaseException as error:
            roll_back(connection)
            if failure := self._translate_error(error):
                raise failure from error
            raise

    def _read_inline(self, query: TransactionFn[T]) -> T:
        connection, used = self._inline_readers.connection()
        try:
            try:
                return query(PostgresTransaction(connection))
            except psycopg.OperationalError:
                if not (used and connection.closed):
                    raise
                connection, _ = self._inline_readers.connection()
                return query(PostgresTransaction(connection))
        except BaseException as error:
            if failure := self._translate_error(error):
                raise failure from error
            raise

    def _begin(self, threads: ConnectionThreads, statement: bytes) -> PostgresConnection:
        try:
            return threads.begin(statement)
        except psycopg.Error as error:
            raise self._address.connection_lost(str(error)) from error

    def _commit(self, connection: PostgresConnection) -> None:
        try:
            answer = connection.execute(b"COMMIT").statusmessage
        except BaseException as error:
            if isinstance(error, psycopg.Error) and not connection.closed:
                raise  # the server answered, so it has rolled back
            connection.close()
            raise self._address.commit_unknown() from error
        if answer != "COMMIT":
            raise self._address.connection_lost(f"COMMIT was answered with {answer}")

    def _translate_error(self, error: BaseException, tries: int = 1) -> Exception | None:
        """The user-facing error if the server failed; None if the caller's statement is at fault."""
        if isinstance(error, StopIteration):  # a future cannot carry it
            return RuntimeError("a change or query raised StopIteration")
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate
        if state in SERIALIZATION_ERRORS:
            return self._address.serialization_exhausted(tries)
        if state is None:
            failed = isinstance(error, psycopg.OperationalError)
        else:
            failed = state[:2] in SERVER_ERROR_CLASSES or state == READ_ONLY_SQLSTATE
        return self._address.connection_lost(str(error)) if failed else None


class _PostgresMigrator:
    """Migrates under an advisory lock that every server of this database takes."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    def begin(self) -> PostgresTransaction:
        # READ COMMITTED: after waiting for the lock, reads must see what the other server committed.
        self._connection.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED")
        self._connection.execute(MIGRATION_LOCK)
        return PostgresTransaction(self._connection)

    def commit(self) -> None:
        self._connection.execute(b"COMMIT")

    def rollback(self) -> None:
        roll_back(self._connection)
