"""PostgreSQL: every write is a SERIALIZABLE transaction, run again when it met another one.

Each worker thread keeps one connection and opens it again when it was lost, so nothing waits for a pool to
notice that the server is gone, or back. Writes, reads and peeks have threads of their own: a burst of one
leaves the others free. A commit whose answer was lost is reported as such and never run again.

Rows are what SQLite gives: int, float, str, bytes and None. SUM and AVG of BIGINT are NUMERIC here, read
as an int when whole in form and as a float otherwise; SQL that needs one of the two for certain has a CAST.
"""

import asyncio
import contextlib
import functools
import random
import re
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.store.base import NO_PARAMS, Change, Params, Row, T
from stoker.store.migrate import migrate

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

OLDEST = 13
TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | --[^\n]*
    | /\*.*?\*/
    | ::
    | %
    | :(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    """,
    re.VERBOSE | re.DOTALL,
)

CONNECT_DEFAULTS = {
    "application_name": "stoker",
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


@functools.lru_cache(maxsize=1024)
def to_psycopg(sql: str) -> bytes:
    """The statement as psycopg reads it: it looks for `%` everywhere, so each one is doubled."""
    return TOKEN.sub(_translate, sql).encode()


def _translate(token: re.Match[str]) -> str:
    name = token["name"]
    return f"%({name})s" if name else token[0].replace("%", "%%")


class Place(Struct, frozen=True):
    """A database as a user would point at it."""

    host: str
    port: str
    database: str
    user: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}/{self.database}"

    def unreachable(self, reason: str) -> StokerError:
        """No connection could be made; `reason` is libpq's text, which names hosts and users but no password."""
        reason = reason.strip().split("\n", 1)[0]
        if "password authentication failed" in reason or "no password supplied" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} refuses user "{self.user}" with the password given.'
            hint = "Check user and password of --database; characters such as @ : / are written as %40 %3A %2F."
        elif 'database "' in reason and "does not exist" in reason:
            message = f'The PostgreSQL at {self.host}:{self.port} has no database "{self.database}".'
            hint = f"Create it: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0."
        elif "resolve host" in reason or "translate host name" in reason:
            message = f'The host "{self.host}" of the database is not known to this machine.'
            hint = "Check the host of --database and the name service (getent hosts)."
        else:
            message = f"The database {self} cannot be reached: {reason}."
            hint = "Check that PostgreSQL runs, and host and port of --database."
        return StokerError(ErrorCode.BACKEND_DOWN, message, hint=hint, retry_after_seconds=1)

    def lost(self, reason: str) -> StokerError:
        """The server failed in the middle of a transaction, which therefore did not happen."""
        reason = reason.strip().split("\n", 1)[0]
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The database {self} failed: {reason}. Nothing of this request was kept.",
            hint="Try again; if it stays, look at the log of PostgreSQL.",
            retry_after_seconds=1,
        )

    def unsure(self) -> StokerError:
        """The connection ended between the commit and its answer."""
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The connection to the database {self} was lost while this change was being committed. "
            "It may or may not have been kept.",
            hint="Look whether the change is there before you send it again.",
        )

    def crowded(self, tries: int) -> StokerError:
        """Other transactions won every time."""
        return StokerError(
            ErrorCode.BACKEND_DOWN,
            f"The database {self} is too busy: this change met others {tries} times. Nothing of it was kept.",
            hint="Try again in a moment.",
            retry_after_seconds=1,
        )

    def unfit(self, version: int, encoding: str) -> StokerError | None:
        """Why this server cannot hold Stoker, if so; `version` as libpq counts it (160004)."""
        if version < OLDEST * 10_000:
            return StokerError(
                ErrorCode.STATE_FORBIDS,
                f"The PostgreSQL at {self.host}:{self.port} has version {version // 10_000}; "
                f"Stoker needs {OLDEST} or newer.",
                hint="Upgrade it, or name another --database.",
            )
        if encoding != "UTF8":
            return StokerError(
                ErrorCode.STATE_FORBIDS,
                f"The database {self} is encoded in {encoding}; Stoker needs UTF8.",
                hint=f"Create it anew: CREATE DATABASE {self.database} ENCODING 'UTF8' TEMPLATE template0.",
            )
        return None

    def unprepared(self, reason: str) -> StokerError:
        """The tables could not be made."""
        return StokerError(
            ErrorCode.STATE_FORBIDS,
            f'User "{self.user}" cannot set up the database {self}: {reason.strip()}. Nothing was changed.',
            hint=f'Make the user its owner: ALTER DATABASE {self.database} OWNER TO "{self.user}".',
        )


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
            _roll_back(connection)
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


def _roll_back(connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()


def _parse(url: str) -> dict[str, Any]:
    """The parts of the URL; a refusal repeats none, as what looks like a host may be a piece of the password."""
    with contextlib.suppress(psycopg.Error):
        options = conninfo_to_dict(url)
        ports = str(options.get("port", "")).replace(",", "")
        if "@" not in str(options.get("host", "")) and (not ports or ports.isdigit()):
            return options
    raise bad_request(
        "database",
        "this is not a PostgreSQL URL. Use postgresql://user:password@host:5432/name.",
        hint="Characters such as @ : / in the password are written as %40 %3A %2F.",
    )


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
