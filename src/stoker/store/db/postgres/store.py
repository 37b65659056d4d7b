"""PostgreSQL: every write is a SERIALIZABLE transaction, run again when it met another one.

Writes, reads and peeks have threads of their own: a burst of one leaves the others free. A commit whose answer
was lost is reported as such and never run again.
"""

import asyncio
import contextlib
import random
import threading
import time

import psycopg

from stoker.store.base import Change, T
from stoker.store.migrate import migrate
from stoker.store.postgres_place import options_of, place_of
from stoker.store.postgres_session import Connection, PostgresTransaction, Workers, connect, roll_back

WRITE = b"BEGIN ISOLATION LEVEL SERIALIZABLE"
READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
MIGRATE_LOCK = b"SELECT pg_advisory_xact_lock(6013418820041)"

MET_ANOTHER = {"40001", "40P01"}
TRIES = 20
TRY_SECONDS = 10.0
UNIQUE_VIOLATION = "23505"
UNIQUE_TRIES = 3
PAUSE_SECONDS = 0.05

FAILURE_CLASSES = {"08", "53", "57", "58", "XX"}
READ_ONLY_SERVER = "25006"


class _Patience:
    """How often a write is run again, and after what pause."""

    def __init__(self) -> None:
        self.tries = 0
        self._unique = 0
        self._until = time.monotonic() + TRY_SECONDS

    def allows(self, cause: BaseException) -> bool:
        """Whether the write that failed so may be run again."""
        self.tries += 1
        state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
        if state == UNIQUE_VIOLATION:  # the change looked for duplicates first, so another one was faster
            self._unique += 1
            return self._unique < UNIQUE_TRIES
        self._unique = 0
        return state in MET_ANOTHER and (self.tries < TRIES or time.monotonic() < self._until)

    def pause(self) -> float:
        return random.uniform(0, min(PAUSE_SECONDS, 0.001 * 2**self.tries))  # noqa: S311 - spreads, hides nothing


class PostgresStore:
    """A PostgreSQL that several servers may share, with at most `pool` connections (three at least)."""

    def __init__(self, url: str, pool: int) -> None:
        self._options = options_of(url)
        self._place = place_of(self._options)
        self._prepare()
        writers, readers = pool // 2, pool // 4
        self._writers = Workers("write", writers, self._connect)
        self._readers = Workers("read", readers, self._connect)
        self._peekers = Workers("peek", pool - writers - readers, self._connect)
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return f"PostgreSQL ({self._place})"

    async def write(self, change: Change[T]) -> T:
        return await self._writers.run(self._write, change)

    async def poke(self, change: Change[T]) -> T:
        return await self.write(change)

    async def read(self, query: Change[T]) -> T:
        return await self._readers.run(self._read, query)

    async def peek(self, query: Change[T]) -> T:
        return await self._peekers.run(self._peek, query)

    def check_room(self) -> None:
        """Its disk is its own affair: it says so itself when it is full."""

    async def close(self) -> None:
        """Finish what is queued, then let go of the connections."""
        loop = asyncio.get_running_loop()
        for workers in (self._writers, self._readers, self._peekers):
            await loop.run_in_executor(None, workers.close)

    def _connect(self) -> Connection:
        try:
            return connect(self._options)
        except psycopg.Error as error:
            raise self._place.unreachable(str(error)) from error

    def _prepare(self) -> None:
        """Check the server and bring its schema up to date."""
        with contextlib.closing(self._connect()) as connection:
            info = connection.info
            if unfit := self._place.unfit(info.server_version, info.parameter_status("server_encoding") or "unknown"):
                raise unfit
            try:
                migrate(_Migrator(connection), "postgres")
            except psycopg.errors.InsufficientPrivilege as error:
                raise self._place.unprepared(str(error)) from error
            except psycopg.Error as error:
                raise self._place.lost(str(error)) from error

    def _write(self, change: Change[T]) -> T:
        patience = _Patience()
        while True:
            # Those that met another take turns within this process; else each commit fails all who wait for it.
            with self._turn if patience.tries else contextlib.nullcontext():
                connection = self._begin(self._writers, WRITE)
                transaction = PostgresTransaction(connection)
                try:
                    result = change(transaction)
                    if transaction.failure is not None:
                        raise transaction.failure
                    self._commit(connection)
                    return result
                except BaseException as error:
                    roll_back(connection)
                    if not patience.allows(transaction.failure or error):
                        if told := self._explained(error, patience.tries):
                            raise told from error
                        raise
            time.sleep(patience.pause())

    def _read(self, query: Change[T]) -> T:
        connection = self._begin(self._readers, READ)
        try:
            result = query(PostgresTransaction(connection))
            connection.execute(b"COMMIT")
            return result
        except BaseException as error:
            roll_back(connection)
            if told := self._explained(error):
                raise told from error
            raise

    def _peek(self, query: Change[T]) -> T:
        connection, used = self._peekers.connection()
        try:
            try:
                return query(PostgresTransaction(connection))
            except psycopg.OperationalError:
                if not (used and connection.closed):
                    raise
                connection, _ = self._peekers.connection()
                return query(PostgresTransaction(connection))
        except BaseException as error:
            if told := self._explained(error):
                raise told from error
            raise

    def _begin(self, workers: Workers, statement: bytes) -> Connection:
        try:
            return workers.begin(statement)
        except psycopg.Error as error:
            raise self._place.lost(str(error)) from error

    def _commit(self, connection: Connection) -> None:
        try:
            answer = connection.execute(b"COMMIT").statusmessage
        except BaseException as error:
            if isinstance(error, psycopg.Error) and not connection.closed:
                raise  # the server answered: it has rolled back
            connection.close()
            raise self._place.unsure() from error
        if answer != "COMMIT":
            raise self._place.lost(f"COMMIT was answered with {answer}")

    def _explained(self, error: BaseException, tries: int = 1) -> Exception | None:
        """The sentence for a failing server; None when the error is the caller's own."""
        if isinstance(error, StopIteration):  # which a future cannot carry
            return RuntimeError("a change or query let StopIteration out")
        if not isinstance(error, psycopg.Error):
            return None
        state = error.sqlstate
        if state in MET_ANOTHER:
            return self._place.crowded(tries)
        if state is None:
            failed = isinstance(error, psycopg.OperationalError)
        else:
            failed = state[:2] in FAILURE_CLASSES or state == READ_ONLY_SERVER
        return self._place.lost(str(error)) if failed else None


class _Migrator:
    """Runs the numbered migrations while holding a lock that every server of this database asks for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def begin(self) -> PostgresTransaction:
        # READ COMMITTED, so that what is read after the wait for the lock is what the other server left.
        self._connection.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED")
        self._connection.execute(MIGRATE_LOCK)
        return PostgresTransaction(self._connection)

    def commit(self) -> None:
        self._connection.execute(b"COMMIT")

    def rollback(self) -> None:
        roll_back(self._connection)
