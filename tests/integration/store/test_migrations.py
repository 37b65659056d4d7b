"""The migration runner on both databases, with made-up steps in a folder of files."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.conftest import LoopRun
from tests.postgres import PostgresServer

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store import open_store
from stoker.store.db import migrate as migrations
from stoker.store.db.migrate import CREATE_TABLE, read_folder
from stoker.store.db.sqlite.connection import DATABASE_FILE

BOOKS = "-- Books.\nCREATE TABLE book (id BIGINT PRIMARY KEY, title TEXT NOT NULL);\n"
PAGES = "-- Pages.\nCREATE TABLE page (id BIGINT PRIMARY KEY);\nINSERT INTO page (id) VALUES (7);\n"
BROKEN = "-- Broken.\nCREATE TABLE cover (id BIGINT PRIMARY KEY);\nINSERT INTO nowhere (id) VALUES (1);\n"


class EmptyDatabase:
    """A database without any table, and a look into it past the store."""

    def __init__(self, url: str, data_dir: Path, run: LoopRun) -> None:
        self.url, self.data_dir, self._run = url, data_dir, run

    def open(self) -> None:
        """What a server does first."""
        self._run(open_store(self.url, self.data_dir, pool=2).close())

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        if self.url:
            with psycopg.connect(self.url) as connection:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []
        with contextlib.closing(sqlite3.connect(self.data_dir / DATABASE_FILE)) as connection, connection:
            return connection.execute(statement).fetchall()

    def tables(self) -> set[str]:
        found = (
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            if self.url
            else "SELECT name FROM sqlite_master WHERE type = 'table'"
        )
        return {name for (name,) in self.sql(found)}

    def applied(self) -> list[tuple[Any, ...]]:
        return self.sql("SELECT number, name FROM migration ORDER BY number")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path, loop_run: LoopRun) -> Iterator[EmptyDatabase]:
    if request.param == "sqlite":
        yield EmptyDatabase("", tmp_path, loop_run)
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    with server.database() as url:
        yield EmptyDatabase(url, tmp_path, loop_run)


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose files are the migrations of this version."""
    folder = tmp_path / "steps"
    folder.mkdir()
    monkeypatch.setattr(migrations, "shipped_migrations", lambda _dialect: read_folder(folder))
    return folder


def test_a_database_that_is_behind_gets_what_it_lacks_and_keeps_its_rows(database: EmptyDatabase, steps: Path) -> None:
    (steps / "0001_books.sql").write_text(BOOKS)
    database.open()
    database.sql("INSERT INTO book (id, title) VALUES (1, 'a')")
    (steps / "0002_pages.sql").write_text(PAGES)
    for _ in range(2):
        database.open()
        assert database.applied() == [(1, "books"), (2, "pages")]
        assert database.sql("SELECT book.title, page.id FROM book CROSS JOIN page") == [("a", 7)]


def test_a_step_that_fails_half_way_leaves_nothing_of_itself_or_of_the_steps_before(
    database: EmptyDatabase, steps: Path
) -> None:
    (steps / "0001_books.sql").write_text(BOOKS)
    database.open()
    (steps / "0002_pages.sql").write_text(PAGES)
    (steps / "0003_broken.sql").write_text(BROKEN)
    for _ in range(2):  # the first failure holds no lock
        with pytest.raises(StokerError, match="nowhere"):
            database.open()
        assert database.tables() == {"migration", "book"}
        assert database.applied() == [(1, "books")]
    (steps / "0003_broken.sql").unlink()
    database.open()
    assert database.tables() == {"migration", "book", "page"}


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("UPDATE migration SET sha256 = 'x'", r"Migration 1 \(books\) .* is not the one this version ships"),
        ("INSERT INTO migration VALUES (2, 'pages', '0', 1)", r"newer Stoker: it has migration 2 \(pages\).* up to 1"),
    ],
    ids=["other text", "newer"],
)
def test_a_database_of_other_steps_is_refused_and_left_alone(
    database: EmptyDatabase, steps: Path, statement: str, sentence: str
) -> None:
    (steps / "0001_books.sql").write_text(BOOKS)
    database.open()
    database.sql(statement)
    before = database.sql("SELECT * FROM migration ORDER BY number")
    with pytest.raises(StokerError, match=sentence) as refused:
        database.open()
    assert refused.value.code is ErrorCode.CONFLICT
    assert database.sql("SELECT * FROM migration ORDER BY number") == before
    assert database.tables() == {"migration", "book"}


def test_a_pre_release_database_is_refused_and_left_alone(database: EmptyDatabase) -> None:
    database.sql(CREATE_TABLE)
    database.sql("CREATE TABLE account (id TEXT PRIMARY KEY)")
    for number, name in ((1, "identity"), (2, "workloads"), (57, "pod_node_order")):
        database.sql(f"INSERT INTO migration VALUES ({number}, '{name}', 'hash', 1)")  # noqa: S608
    for _ in range(2):
        with pytest.raises(StokerError) as refused:
            database.open()
        assert refused.value.message == (
            "This database was made by a pre-release version of Stoker and cannot be upgraded. Nothing was changed."
        )
        assert refused.value.hint == "Start with a new data dir (--data-dir) or database (--database)."
        assert refused.value.code is ErrorCode.CONFLICT
        assert database.tables() == {"migration", "account"}
