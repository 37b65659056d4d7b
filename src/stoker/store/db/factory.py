"""Chooses SQLite or PostgreSQL. Only the driver of the chosen database is imported."""

from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError, bad_request
from stoker.store.db.base import Store

POSTGRES_SCHEMES = ("postgresql://", "postgres://")


def open_store(database: str, data_dir: Path, pool: int, low_bytes: int = 0, reserve_bytes: int = 0) -> Store:
    """Open and migrate the database at the URL, or the SQLite file of the data dir if the URL is empty."""
    if not database:
        from stoker.store.db.sqlite.store import SqliteStore

        return SqliteStore(data_dir, low_bytes, reserve_bytes)
    if not database.startswith(POSTGRES_SCHEMES):
        raise bad_request(
            "database",
            "Stoker does not support this database. Leave it empty for SQLite in the data dir, "
            "or use postgresql://user:password@host:5432/name.",
        )
    try:
        from stoker.store.db.postgres.store import PostgresStore
    except ImportError as error:
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"A PostgreSQL database needs psycopg, which cannot be loaded here: {error}.",
            hint="Run pip install 'stoker[postgres]'.",
        ) from error

    return PostgresStore(database, pool)
