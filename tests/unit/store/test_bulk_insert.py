"""Many rows in few statements are the rows that single ones would be."""

import sqlite3

import pytest

from stoker.store.db.sqlite.bulk_insert import BATCH_SIZES, batch_inserts
from stoker.store.db.sqlite.connection import SqliteTransaction

TABLE = "CREATE TABLE thing (name TEXT PRIMARY KEY, size INTEGER NOT NULL, word TEXT) STRICT"
ADD = "INSERT INTO thing (name, size, word) VALUES (:name, COALESCE(:size, 7), NULL)"
PUT = """
INSERT INTO thing (name, size, word)
VALUES (:name, :size, NULL)
ON CONFLICT (name) DO UPDATE SET size = thing.size + excluded.size
"""
ALL = "SELECT name, size, word FROM thing ORDER BY name"


@pytest.fixture
def transaction() -> SqliteTransaction:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute(TABLE)
    return SqliteTransaction(connection)


@pytest.mark.parametrize(
    "count",
    [
        0,
        1,
        BATCH_SIZES[-1] - 1,
        BATCH_SIZES[-1],
        BATCH_SIZES[0] - 1,
        BATCH_SIZES[0],
        3 * BATCH_SIZES[0] + BATCH_SIZES[-1] + 5,
    ],
)
def test_every_row_is_inserted_once(transaction: SqliteTransaction, count: int) -> None:
    rows = [{"name": f"{n:04}", "size": n if n % 2 else None, "more": "ignored"} for n in range(count)]
    assert transaction.execute_many(ADD, rows) == count
    assert transaction.fetch_all(ALL) == [(f"{n:04}", n if n % 2 else 7, None) for n in range(count)]


def test_rows_that_are_there_are_changed_one_after_the_other(transaction: SqliteTransaction) -> None:
    rows = [{"name": str(n % 3), "size": n} for n in range(100)]
    assert transaction.execute_many(PUT, rows) == 100
    assert transaction.fetch_all(ALL) == [(str(name), sum(range(name, 100, 3)), None) for name in range(3)]


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE thing SET size = :size WHERE name = :name",
        "DELETE FROM thing WHERE name = :name AND size = :size",
        "INSERT INTO thing (name, size) VALUES (:name, 1) ON CONFLICT (name) DO UPDATE SET size = :size",
        "INSERT INTO thing (name, size) VALUES (:name, :size) RETURNING size",
        "INSERT INTO thing (name, size) SELECT :name, :size",
        "INSERT INTO thing (name, size) VALUES (:name, 1)",
        "INSERT INTO thing (name, size, word) VALUES (:name, :size, ':name')",
    ],
)
def test_other_statements_stay_as_they_are(sql: str) -> None:
    rows = [{"name": str(n), "size": n} for n in range(100)]
    assert batch_inserts(sql, rows) == ([], rows)


def test_one_bad_row_fails_the_whole(transaction: SqliteTransaction) -> None:
    rows: list[dict[str, object]] = [{"name": str(n), "size": n} for n in range(20)]
    rows[13]["size"] = "not a number"
    with pytest.raises(sqlite3.IntegrityError):
        transaction.execute_many(PUT, rows)
