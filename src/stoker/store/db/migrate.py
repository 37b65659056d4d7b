"""Applies numbered schema files. An applied file never changes: the database records its number and hash.

One transaction applies all files that a database lacks, whether it is new or older than this version.
"""

import hashlib
import logging
import time
from collections.abc import Iterable, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Protocol

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.base import Transaction

log = logging.getLogger("stoker.store")

CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""
APPLIED_MIGRATIONS = """
SELECT number, name, sha256
FROM migration
ORDER BY number
"""
RECORD_MIGRATION = """
INSERT INTO migration (number, name, sha256, applied_at)
VALUES (:number, :name, :sha256, :applied_at)
"""
PRE_RELEASE = (1, "identity")
"""Number and name of the first migration before the first release; the first file since then is `0001_initial.sql`."""


class ScriptTransaction(Transaction, Protocol):
    def execute_script(self, sql: str) -> None: ...


class Migrator(Protocol):
    """Begins, commits and rolls back a transaction that locks out other migrating processes."""

    def begin(self) -> ScriptTransaction: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


class Migration(Struct, frozen=True):
    number: int
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def summary(self) -> str:
        """The comment in the first line of the file."""
        return self.sql.partition("\n")[0].removeprefix("-- ")


def shipped_migrations(dialect: str) -> list[Migration]:
    """The migrations this version ships for `sqlite` or `postgres`, in order."""
    return read_folder(resources.files("stoker.store").joinpath("schema", dialect))


def read_folder(folder: Traversable) -> list[Migration]:
    """The migrations of a folder of files `<number>_<name>.sql`, in order."""
    found = []
    for file in folder.iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def refuse_pre_release(applied: Iterable[tuple[int, str, str]]) -> None:
    """Reject a database created by the migrations from before the first release; nothing upgrades those."""
    if any((number, name) == PRE_RELEASE for number, name, _ in applied):
        raise StokerError(
            ErrorCode.CONFLICT,
            "This database was made by a pre-release version of Stoker and cannot be upgraded. Nothing was changed.",
            hint="Start with a new data dir (--data-dir) or database (--database).",
        )


def pending_migrations(applied: Sequence[tuple[int, str, str]], shipped: list[Migration]) -> list[Migration]:
    """The migrations still to be applied; rejects a database that is newer or was created by different SQL."""
    refuse_pre_release(applied)
    by_number = {migration.number: migration for migration in shipped}
    done = set()
    for number, name, sha256 in applied:
        migration = by_number.get(number)
        if migration is None:
            raise StokerError(
                ErrorCode.CONFLICT,
                f"This database is of a newer Stoker: it has migration {number} ({name}), "
                f"and this version knows up to {max(by_number)}. Nothing was changed.",
                hint="Start the newer version, or restore a backup created by this version.",
            )
        if migration.sha256 != sha256:
            raise StokerError(
                ErrorCode.CONFLICT,
                f"Migration {number} ({name}) of this database is not the one this version ships. Nothing was changed.",
                hint="Start the version that created this database, or restore a backup.",
            )
        done.add(number)
    return [migration for migration in shipped if migration.number not in done]


def migrate(migrator: Migrator, dialect: str) -> None:
    """Apply all pending migrations in one transaction."""
    transaction = migrator.begin()
    try:
        transaction.execute(CREATE_TABLE)
        applied = [(row[0], row[1], row[2]) for row in transaction.fetch_all(APPLIED_MIGRATIONS)]
        pending = pending_migrations(applied, shipped_migrations(dialect))
        for migration in pending:
            transaction.execute_script(migration.sql)
            transaction.execute(
                RECORD_MIGRATION,
                {
                    "number": migration.number,
                    "name": migration.name,
                    "sha256": migration.sha256,
                    "applied_at": time.time_ns() // 1_000_000,
                },
            )
    except BaseException:
        migrator.rollback()
        raise
    migrator.commit()
    for migration in pending if applied else []:
        log.info("The database schema was upgraded, migration %d: %s", migration.number, migration.summary)
