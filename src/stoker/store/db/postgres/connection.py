"""Connections to PostgreSQL that behave as SQLite does, and the threads that keep one each.

A thread opens its connection again when it was lost, so nothing waits for a pool to notice that the server is
gone, or back.

Rows are what SQLite gives: int, float, str, bytes and None. SUM and AVG of BIGINT are NUMERIC here, read
as an int when whole in form and as a float otherwise; SQL that needs one of the two for certain has a CAST.
"""

import asyncio
import functools
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import make_conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.base import NO_PARAMS, Change, Params, Row, T

Connection = psycopg.Connection[Row]

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


def roll_back(connection: Connection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()


class PostgresTransaction:
    """Remembers the first failure: PostgreSQL refuses all that follows, even when the change went on."""

    def __init__(self, connection: Connection) -> None:
        self._cursor = connection.cursor()
        self.lane = connection.info.backend_pid
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

    def many(self, sql: str, rows: Sequence[Params]) -> int:
        if not rows:
            return 0
        if len(rows) == 1:  # a pipeline for one statement costs more than the statement
            return self.run(sql, rows[0])
        try:
            self._cursor.executemany(to_psycopg(sql), rows)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise
        return self._cursor.rowcount

    def script(self, sql: str) -> None:
        """Several statements without parameters."""
        self._cursor.execute(sql.encode())

    def _execute(self, sql: str, params: Params) -> None:
        try:
            self._cursor.execute(to_psycopg(sql), params)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise


class Workers:
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
