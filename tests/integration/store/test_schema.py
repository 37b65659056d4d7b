"""Both dialects say the same: tables, columns, keys and indexes."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from tests.conftest import LoopRun

from stoker.store.db.sqlite.connection import DATABASE_FILE
from stoker.store.db.sqlite.store import SqliteStore

TYPES = {
    "INTEGER": {"bigint", "integer"},
    "TEXT": {"text"},
    "BLOB": {"bytea"},
    "REAL": {"double precision"},
    "BIGINT": {"bigint"},
}
TABLES = """
SELECT table_name
FROM information_schema.tables
WHERE table_schema = 'public'
"""
COLUMNS = """
SELECT column_name, data_type, is_nullable, collation_name
FROM information_schema.columns
WHERE table_schema = 'public'
  AND table_name = %s
ORDER BY ordinal_position
"""
INDEXES = """
SELECT named.relname, index.indisunique, index.indpred IS NOT NULL, constrained.oid IS NULL,
    ARRAY(
        SELECT attname::text
        FROM unnest(index.indkey) WITH ORDINALITY AS part (number, position)
        JOIN pg_attribute ON attrelid = index.indrelid AND attnum = part.number
        ORDER BY position
    )
FROM pg_index AS index
JOIN pg_class AS named ON named.oid = index.indexrelid
LEFT JOIN pg_constraint AS constrained ON constrained.conindid = index.indexrelid AND constrained.contype IN ('p', 'u')
WHERE index.indrelid = %s::regclass
"""
REFERENCES = """
SELECT other.relname, mine.attname, theirs.attname, confdeltype
FROM pg_constraint
JOIN pg_class AS other ON other.oid = confrelid
JOIN pg_attribute AS mine ON mine.attrelid = conrelid AND mine.attnum = conkey[1]
JOIN pg_attribute AS theirs ON theirs.attrelid = confrelid AND theirs.attnum = confkey[1]
WHERE contype = 'f'
  AND conrelid = %s::regclass
"""
ON_DELETE = {"a": "NO ACTION", "c": "CASCADE", "n": "SET NULL", "r": "RESTRICT"}


class Table(Struct):
    columns: list[tuple[str, bool]]
    keys: set[tuple[str, ...]]
    indexes: dict[str, tuple[bool, bool, tuple[str, ...]]]
    references: set[tuple[str, ...]]


def of_sqlite(connection: sqlite3.Connection, name: str) -> tuple[Table, dict[str, str]]:
    info = connection.execute(f"PRAGMA table_info({name})").fetchall()
    primary = [row for row in sorted(info, key=lambda row: row[5]) if row[5]]
    table = Table([(row[1], bool(row[3] or row[5])) for row in info], {tuple(row[1] for row in primary)}, {}, set())
    for _, index, unique, origin, partial in connection.execute(f"PRAGMA index_list({name})").fetchall():
        columns = tuple(row[2] for row in connection.execute(f"PRAGMA index_info('{index}')") if row[2])
        if origin == "c":
            table.indexes[index] = (bool(unique), bool(partial), columns)
        else:
            table.keys.add(columns)
    for row in connection.execute(f"PRAGMA foreign_key_list({name})"):
        table.references.add((row[2], row[3], row[4], row[6]))
    return table, {row[1]: row[2] for row in info}


def of_postgres(connection: psycopg.Connection[Any], name: str) -> tuple[Table, dict[str, str]]:
    found = connection.execute(COLUMNS, [name]).fetchall()
    for column, kind, _, collation in found:
        assert kind != "text" or collation == "C" or name == "migration", f"{name}.{column} is sorted by {collation}"
    table = Table([(row[0], row[2] == "NO") for row in found], set(), {}, set())
    for index, unique, partial, plain, columns in connection.execute(INDEXES, [f'"{name}"']).fetchall():
        if plain:
            table.indexes[index] = (unique, partial, tuple(columns))
        else:
            table.keys.add(tuple(columns))
    for other, mine, theirs, action in connection.execute(REFERENCES, [f'"{name}"']).fetchall():
        table.references.add((other, mine, theirs, ON_DELETE[action]))
    return table, {row[0]: row[1] for row in found}


def test_both_dialects_define_the_same_schema(postgres_url: str, tmp_path: Path, loop_run: LoopRun) -> None:
    loop_run(SqliteStore(tmp_path).close())
    with contextlib.closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as here, psycopg.connect(postgres_url) as there:
        found = [name for (name,) in here.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        names = {name for name in found if not name.startswith("sqlite_")}
        assert {name for (name,) in there.execute(TABLES.encode()).fetchall()} == names
        assert len(names) > 10
        for name in sorted(names):
            (mine, kinds), (theirs, other_kinds) = of_sqlite(here, name), of_postgres(there, name)
            assert (name, mine) == (name, theirs)
            for column, kind in kinds.items():
                assert other_kinds[column] in TYPES[kind], f"{name}.{column}"
