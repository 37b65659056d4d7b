"""PostgreSQL: every write is a SERIALIZABLE transaction, run again when it met another one.

Each worker thread keeps one connection and opens it again when it was lost, so nothing waits for a pool to
notice that the server is gone, or back. Writes, reads and peeks have threads of their own: a burst of one
leaves the others free. A commit whose answer was lost is reported as such and never run again.

Rows are what SQLite gives: int, float, str, bytes and None. SUM and AVG of BIGINT are NUMERIC here, read
as an int when whole in form and as a float otherwise; SQL that needs one of the two for certain has a CAST.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.store.base import NO_PARAMS, Change, Params, Row, T
from stoker.store.migrate import migrate
from stoker.store.placeholders import to_psycopg
from stoker.store.postgres_place import Place

try:
    import psycopg
    from psycopg.abc import Buffer
    from psycopg.adapt import Dumper, Loader
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.types.numeric import Int8Dumper
    from psycopg.types.string import StrDumper
except ImportError as error:
    raise StokerError(
        ErrorCode.BACKEND_DOWN,
        f"A PostgreSQL database needs psycopg, which cannot be loaded here: {error}.",
        hint="Run pip install 'stoker[postgres]'.",
    ) from error

Connection = psycopg.Connection[Row]

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

CONNECT_DEFAULTS = {
    "application_name": "stoker",
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class _BoolDumper(Dumper):
    """A Python bool is 0 or 1, as in SQLite."""

    oid = Int8Dumper.oid

    def dump(self, obj: bool) -> Buffer:
        return b"1" if obj else b"0"


class _BoolLoader(Loader):
    def load(self, data: Buffer) -> int:
        return 1 if data == b"t" else 0


class _NumericLoader(Loader):
    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return int(text) if text.removeprefix(b"-").isdigit() else float(text)


def connect(options: dict[str, Any]) -> Connection:
    """A connection set up as every connection of Stoker is."""
    connection = psycopg.connect(
        make_conninfo(**{**CONNECT_DEFAULTS, **options, "client_encoding": "utf8"}), autocommit=True
    )
    connection.prepared_max = 512
    adapters = connection.adapters
    adapters.register_dumper(int, Int8Dumper)  # psycopg's own takes the smallest type, and arithmetic overflows
    adapters.register_dumper(str, StrDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("numeric", _NumericLoader)
    return connection


class PostgresTransaction:
    """Remembers the first failure: PostgreSQL refuses all that follows, even when the change went on."""

    def __init__(self, connection: Connection) -> None:
        self._cursor = connection.cursor()
        self.failure: psycopg.Error | None = None

    def all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        self._execute(sql, params)
        return self._cursor.fetchall()

    def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._execute(sql, params)
        return self._cursor.fetchone()

    def run(self, sql: str, params: Params = NO_PARAMS) -> int:
        self._execute(sql, params)
        return self._cursor.rowcount

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        try:
            self._cursor.executemany(to_psycopg(sql), rows)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise

    def script(self, sql: str) -> None:
        """Several statements without parameters."""
        self._cursor.execute(sql.encode())

    def _execute(self, sql: str, params: Params) -> None:
        try:
            self._cursor.execute(to_psycopg(sql), params)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise


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


class _Workers:
    """Threads that each keep one connection."""

    def __init__(self, name: str, size: int, open_connection: Callable[[], Connection]) -> None:
        self._open = open_connection
        self._threads = ThreadPoolExecutor(max(1, size), thread_name_prefix=f"store-{name}")
        self._local = threading.local()
        self._connections: set[Connection] = set()

    async def run(self, work: Callable[[Change[T]], T], change: Change[T]) -> T:
        try:
            future = self._threads.submit(work, change)
        except RuntimeError:
            raise StokerError(ErrorCode.BACKEND_DOWN, "Stoker is stopping; its database is closed.") from None
        return await asyncio.wrap_future(future)

    def connection(self) -> tuple[Connection, bool]:
        """This thread's connection, and whether it has been used before."""
        held: Connection | None = getattr(self._local, "connection", None)
        if held is not None and not held.closed:
            return held, True
        if held is not None:
            self._connections.discard(held)
        self._local.connection = held = self._open()
        self._connections.add(held)
        return held, False

    def begin(self, statement: bytes) -> Connection:
        """A connection inside a new transaction."""
        connection, used = self.connection()
        try:
            connection.execute(statement)
        except psycopg.OperationalError:
            if not (used and connection.closed):
                raise
            connection, _ = self.connection()  # the server was restarted since, and nothing was under way
            connection.execute(statement)
        return connection

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()


class PostgresStore:
    """A PostgreSQL that several servers may share, with at most `pool` connections (three at least)."""

    def __init__(self, url: str, pool: int) -> None:
        self._options = _parse(url)
        self._place = _place(self._options)
        self._prepare()
        writers, readers = pool // 2, pool // 4
        self._writers = _Workers("write", writers, self._connect)
        self._readers = _Workers("read", readers, self._connect)
        self._peekers = _Workers("peek", pool - writers - readers, self._connect)
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return f"PostgreSQL ({self._place})"

    async def write(self, change: Change[T]) -> T:
        return await self._writers.run(self._write, change)

    async def read(self, query: Change[T]) -> T:
        return await self._readers.run(self._read, query)

    async def peek(self, query: Change[T]) -> T:
        return await self._peekers.run(self._peek, query)

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
                    _roll_back(connection)
                    if not patience.allows(transaction.failure or error):
                        raise self._explained(error, patience.tries) from error
            time.sleep(patience.pause())

    def _read(self, query: Change[T]) -> T:
        connection = self._begin(self._readers, READ)
        try:
            result = query(PostgresTransaction(connection))
            connection.execute(b"COMMIT")
            return result
        except BaseException as error:
            _roll_back(connection)
            raise self._explained(error) from error

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
            raise self._explained(error) from error

    def _begin(self, workers: _Workers, statement: bytes) -> Connection:
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

    def _explained(self, error: BaseException, tries: int = 1) -> BaseException:
        """The error a caller shall meet: a sentence for a failing server, and its own for its own mistake."""
        if isinstance(error, StopIteration):  # which a future cannot carry
            return RuntimeError("a change or query let StopIteration out")
        if not isinstance(error, psycopg.Error):
            return error
        state = error.sqlstate
        if state in MET_ANOTHER:
            return self._place.crowded(tries)
        if state is None:
            failed = isinstance(error, psycopg.OperationalError)
        else:
            failed = state[:2] in FAILURE_CLASSES or state == READ_ONLY_SERVER
        return self._place.lost(str(error)) if failed else error


def _roll_back(connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()


def _parse(url: str) -> dict[str, Any]:
    try:
        options = conninfo_to_dict(url)
    except psycopg.Error:  # whose text may hold a part of the password
        options = {"host": "@"}
    if "@" in str(options.get("host", "")):
        raise bad_request(
            "database",
            "this is not a PostgreSQL URL. Use postgresql://user:password@host:5432/name.",
            hint="Characters such as @ : / in the password are written as %40 %3A %2F.",
        ) from None
    return options


def _place(options: dict[str, Any]) -> Place:
    user = options.get("user", "")
    return Place(
        host=options.get("host") or "local socket",
        port=str(options.get("port") or 5432),
        database=options.get("dbname") or user,
        user=user,
    )


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
        _roll_back(self._connection)
