"""Chooses the database: the one place that knows both."""

from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.store.base import Store

SCHEMES = ("postgresql://", "postgres://")


def open_store(database: str, data_dir: Path, pool: int, low_bytes: int = 0, reserve_bytes: int = 0) -> Store:
    """Open the database at the URL, or the SQLite file of the data dir when there is none; migrates it."""
    if not database:
        from stoker.store.sqlite import SqliteStore

        return SqliteStore(data_dir, low_bytes, reserve_bytes)
    if not database.startswith(SCHEMES):
        raise bad_request(
            "database",
            "this is not a database Stoker can use. Leave it empty for SQLite in the data dir, "
            "or use postgresql://user:password@host:5432/name.",
        )
    try:
        from stoker.store.postgres import PostgresStore
    except ImportError as error:
        raise StokerError(
            ErrorCode.BACKEND_DOWN,
            f"A PostgreSQL database needs psycopg, which cannot be loaded here: {error}.",
            hint="Run pip install 'stoker[postgres]'.",
        ) from error

    return PostgresStore(database, pool)
