import logging
import sqlite3
from pathlib import Path

import pytest

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db import migrate as migrations
from stoker.store.db.migrate import (
    APPLIED_MIGRATIONS,
    Migration,
    migrate,
    pending_migrations,
    read_folder,
    shipped_migrations,
)
from stoker.store.db.sqlite.connection import SqliteTransaction

FIRST = Migration(1, "first", "CREATE TABLE one (id INTEGER) STRICT;\n")
SECOND = Migration(2, "second", "CREATE TABLE two (id INTEGER) STRICT;\nINSERT INTO two VALUES (1);\n")
BROKEN = Migration(3, "broken", "CREATE TABLE three (id INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);\n")
STEPS = {
    "0001_books.sql": "-- Books.\nCREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT NOT NULL) STRICT;\n",
    "0002_titles.sql": "-- Titles are indexed.\nCREATE INDEX book_by_title ON book (title);\n",
    "0010_pages.sql": "-- Pages.\nCREATE TABLE page (book_id INTEGER NOT NULL REFERENCES book (id)) STRICT;\n"
    "ALTER TABLE book ADD COLUMN pages INTEGER NOT NULL DEFAULT 0;\n",
}


class MemoryDatabase:
    """A database that lives as long as the test."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)

    def begin(self) -> SqliteTransaction:
        self.connection.execute("BEGIN IMMEDIATE")
        return SqliteTransaction(self.connection)

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def rollback(self) -> None:
        self.connection.execute("ROLLBACK")

    def tables(self) -> set[str]:
        return {name for (name,) in self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def schema(self) -> list[tuple[str, ...]]:
        return self.connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2").fetchall()


def ship(monkeypatch: pytest.MonkeyPatch, *shipped: Migration) -> None:
    monkeypatch.setattr(migrations, "shipped_migrations", lambda _dialect: list(shipped))


def folder(path: Path, files: dict[str, str]) -> Path:
    """A folder of migration files."""
    for name, sql in files.items():
        (path / name).write_text(sql)
    return path


def applied(*done: Migration) -> list[tuple[int, str, str]]:
    return [(migration.number, migration.name, migration.sha256) for migration in done]


def test_what_is_pending_is_what_was_not_applied() -> None:
    assert pending_migrations(applied(), [FIRST, SECOND]) == [FIRST, SECOND]
    assert pending_migrations(applied(FIRST), [FIRST, SECOND]) == [SECOND]
    assert pending_migrations(applied(FIRST, SECOND), [FIRST, SECOND]) == []


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(StokerError, match=r"newer Stoker: it has migration 2 \(second\).* knows up to 1") as refused:
        pending_migrations(applied(FIRST, SECOND), [FIRST])
    assert refused.value.code is ErrorCode.CONFLICT
    assert refused.value.hint


def test_a_migration_whose_text_changed_is_refused() -> None:
    other = Migration(1, "first", FIRST.sql + "-- a later thought\n")
    with pytest.raises(StokerError, match=r"Migration 1 \(first\) .* is not the one this version ships"):
        pending_migrations(applied(other), [FIRST])


def test_all_pending_migrations_are_applied_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryDatabase()
    ship(monkeypatch, FIRST)
    migrate(memory, "sqlite")
    ship(monkeypatch, FIRST, SECOND, BROKEN)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one"}
    assert memory.connection.execute(APPLIED_MIGRATIONS).fetchall() == applied(FIRST)
    ship(monkeypatch, FIRST, SECOND)
    migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one", "two"}


def test_a_statement_without_its_semicolon_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryDatabase()
    ship(monkeypatch, Migration(1, "open", "CREATE TABLE one (id INTEGER) STRICT;\nCREATE TABLE two (id INTEGER)\n"))
    migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one", "two"}


def test_a_refused_database_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryDatabase()
    ship(monkeypatch, FIRST, SECOND)
    migrate(memory, "sqlite")
    before = memory.schema()
    ship(monkeypatch, FIRST)
    with pytest.raises(StokerError, match="Nothing was changed"):
        migrate(memory, "sqlite")
    assert memory.schema() == before
    assert not memory.connection.in_transaction


@pytest.mark.parametrize("steps", range(1, len(STEPS) + 1))
def test_a_database_of_any_age_ends_with_the_schema_of_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: int
) -> None:
    shipped = read_folder(folder(tmp_path, STEPS))
    fresh, grown = MemoryDatabase(), MemoryDatabase()
    ship(monkeypatch, *shipped)
    migrate(fresh, "sqlite")
    ship(monkeypatch, *shipped[:steps])
    migrate(grown, "sqlite")
    ship(monkeypatch, *shipped)
    migrate(grown, "sqlite")
    assert grown.schema() == fresh.schema()
    assert grown.tables() == {"migration", "book", "page"}
    assert grown.connection.execute(APPLIED_MIGRATIONS).fetchall() == applied(*shipped)


def test_the_files_of_a_folder_are_applied_by_their_numbers(tmp_path: Path) -> None:
    shipped = read_folder(folder(tmp_path, dict(reversed(STEPS.items()))))
    assert [(each.number, each.name) for each in shipped] == [(1, "books"), (2, "titles"), (10, "pages")]
    assert [each.sql for each in shipped] == list(STEPS.values())
    assert shipped[0].summary == "Books."


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_new_database_is_made_by_one_file(dialect: str) -> None:
    assert [(each.number, each.name) for each in shipped_migrations(dialect)] == [(1, "initial")]


@pytest.mark.parametrize("later", [[], [(57, "pod_node_order", "f")], [(9999, "tomorrow", "0")]])
def test_a_pre_release_database_is_refused(later: list[tuple[int, str, str]]) -> None:
    with pytest.raises(StokerError, match=r"made by a pre-release version .* cannot be upgraded\.") as refused:
        pending_migrations([(1, "identity", "e"), *later], shipped_migrations("sqlite"))
    assert refused.value.code is ErrorCode.CONFLICT
    assert "--data-dir" in refused.value.hint


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_migration_has_a_number_of_its_own_and_is_alike_on_both(dialect: str) -> None:
    numbers = [migration.number for migration in shipped_migrations(dialect)]
    assert numbers == sorted(set(numbers))
    assert [(m.number, m.name) for m in shipped_migrations(dialect)] == [
        (m.number, m.name) for m in shipped_migrations("sqlite")
    ]


def test_a_database_that_was_behind_is_told_what_was_done_to_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    third = Migration(3, "third", "-- Old pages are dropped; books stay.\nDELETE FROM one;\n")
    memory = MemoryDatabase()
    with caplog.at_level(logging.INFO, "stoker.store"):
        ship(monkeypatch, FIRST, SECOND)
        migrate(memory, "sqlite")
        assert caplog.messages == [], "nothing is said of a fresh one"
        ship(monkeypatch, FIRST, SECOND, third)
        migrate(memory, "sqlite")
        migrate(memory, "sqlite")
    assert caplog.messages == ["The database schema was upgraded, migration 3: Old pages are dropped; books stay."]
