"""PostgreSQL connections and transactions with the statements and value types of SQLite.

Rows hold int, float, str, bytes and None. SUM and AVG of BIGINT are NUMERIC in PostgreSQL; they are read as an
int if the text has no decimal point and as a float otherwise. A statement that needs one of the two uses CAST.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import make_conninfo
from psycopg.types.numeric import Int8Dumper
from psycopg.types.string import StrDumper

from stoker.store.db.base import NO_PARAMS, Params, Row

PostgresConnection = psycopg.Connection[Row]

SQL_TOKEN = re.compile(
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
def to_psycopg_sql(sql: str) -> bytes:
    """Translate `:name` parameters to psycopg's `%(name)s`, and double every `%`, also inside literals."""
    return SQL_TOKEN.sub(_translate_token, sql).encode()


def _translate_token(token: re.Match[str]) -> str:
    name = token["name"]
    return f"%({name})s" if name else token[0].replace("%", "%%")


class _BoolDumper(Dumper):
    """Sends a Python bool as 0 or 1, as SQLite stores it."""

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


def connect(options: dict[str, Any]) -> PostgresConnection:
    """Open a connection in autocommit mode with Stoker's timeouts and type adapters."""
    connection = psycopg.connect(
        make_conninfo(**{**CONNECT_DEFAULTS, **options, "client_encoding": "utf8"}), autocommit=True
    )
    connection.prepared_max = 512
    adapters = connection.adapters
    adapters.register_dumper(int, Int8Dumper)  # psycopg's default picks the smallest type, and arithmetic overflows
    adapters.register_dumper(str, StrDumper)
    adapters.register_dumper(bool, _BoolDumper)
    adapters.register_loader("bool", _BoolLoader)
    adapters.register_loader("numeric", _NumericLoader)
    return connection


def roll_back(connection: PostgresConnection) -> None:
    try:
        if not connection.closed:
            connection.rollback()
    except psycopg.Error:
        connection.close()


class PostgresTransaction:
    """Keeps the first failure: PostgreSQL rejects every later statement, even if the caller caught the error."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._cursor = connection.cursor()
        self.shard = connection.info.backend_pid
        self.failure: psycopg.Error | None = None

    def fetch_all(self, sql: str, params: Params = NO_PARAMS) -> list[Row]:
        self._execute(sql, params)
        return self._cursor.fetchall()

    def fetch_one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._execute(sql, params)
        return self._cursor.fetchone()

    def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        self._execute(sql, params)
        return self._cursor.rowcount

    def execute_many(self, sql: str, rows: Sequence[Params]) -> int:
        if not rows:
            return 0
        if len(rows) == 1:  # a pipeline costs more than one statement
            return self.execute(sql, rows[0])
        try:
            self._cursor.executemany(to_psycopg_sql(sql), rows)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise
        return self._cursor.rowcount

    def execute_script(self, sql: str) -> None:
        """Several statements without parameters."""
        self._cursor.execute(sql.encode())

    def _execute(self, sql: str, params: Params) -> None:
        try:
            self._cursor.execute(to_psycopg_sql(sql), params)
        except psycopg.Error as error:
            self.failure = self.failure or error
            raise
