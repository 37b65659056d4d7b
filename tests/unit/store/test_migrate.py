import sqlite3

import pytest

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store import migrate as migrations
from stoker.store.migrate import APPLIED, Migration, known, migrate, pending
from stoker.store.sqlite_file import SqliteTransaction

FIRST = Migration(1, "first", "CREATE TABLE one (id INTEGER) STRICT;\n")
SECOND = Migration(2, "second", "CREATE TABLE two (id INTEGER) STRICT;\nINSERT INTO two VALUES (1);\n")
BROKEN = Migration(3, "broken", "CREATE TABLE three (id INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);\n")


class Memory:
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
    monkeypatch.setattr(migrations, "known", lambda _dialect: list(shipped))


def applied(*done: Migration) -> list[tuple[int, str, str]]:
    return [(migration.number, migration.name, migration.sha256) for migration in done]


def test_what_is_pending_is_what_was_not_applied() -> None:
    assert pending(applied(), [FIRST, SECOND]) == [FIRST, SECOND]
    assert pending(applied(FIRST), [FIRST, SECOND]) == [SECOND]
    assert pending(applied(FIRST, SECOND), [FIRST, SECOND]) == []


def test_a_newer_database_is_refused() -> None:
    with pytest.raises(StokerError, match=r"newer Stoker: it has migration 2 \(second\).* knows up to 1") as refused:
        pending(applied(FIRST, SECOND), [FIRST])
    assert refused.value.code is ErrorCode.STATE_FORBIDS
    assert refused.value.hint


def test_a_migration_whose_text_changed_is_refused() -> None:
    other = Migration(1, "first", FIRST.sql + "-- a later thought\n")
    with pytest.raises(StokerError, match=r"Migration 1 \(first\) .* is not the one this version ships"):
        pending(applied(other), [FIRST])


def test_all_pending_migrations_are_applied_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    ship(monkeypatch, FIRST)
    migrate(memory, "sqlite")
    ship(monkeypatch, FIRST, SECOND, BROKEN)
    with pytest.raises(sqlite3.OperationalError, match="nowhere"):
        migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one"}
    assert memory.connection.execute(APPLIED).fetchall() == applied(FIRST)
    ship(monkeypatch, FIRST, SECOND)
    migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one", "two"}


def test_a_statement_without_its_semicolon_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    ship(monkeypatch, Migration(1, "open", "CREATE TABLE one (id INTEGER) STRICT;\nCREATE TABLE two (id INTEGER)\n"))
    migrate(memory, "sqlite")
    assert memory.tables() == {"migration", "one", "two"}


def test_a_refused_database_is_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    ship(monkeypatch, FIRST, SECOND)
    migrate(memory, "sqlite")
    before = memory.schema()
    ship(monkeypatch, FIRST)
    with pytest.raises(StokerError, match="Nothing was changed"):
        migrate(memory, "sqlite")
    assert memory.schema() == before
    assert not memory.connection.in_transaction


@pytest.mark.parametrize("steps", range(1, len(known("sqlite")) + 1))
def test_a_database_of_any_age_ends_with_the_schema_of_a_fresh_one(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    shipped = known("sqlite")
    fresh, grown = Memory(), Memory()
    migrate(fresh, "sqlite")
    ship(monkeypatch, *shipped[:steps])
    migrate(grown, "sqlite")
    ship(monkeypatch, *shipped)
    migrate(grown, "sqlite")
    assert grown.schema() == fresh.schema()
    assert grown.connection.execute(APPLIED).fetchall() == applied(*shipped)


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_migration_has_a_number_of_its_own_and_is_alike_on_both(dialect: str) -> None:
    numbers = [migration.number for migration in known(dialect)]
    assert numbers == sorted(set(numbers))
    assert [(m.number, m.name) for m in known(dialect)] == [(m.number, m.name) for m in known("sqlite")]
