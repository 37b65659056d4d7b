"""Numbered migrations. What was once applied never changes: each file's hash is kept with its number.

A fresh database gets all of them in one transaction, and so does one that is behind.
"""

import hashlib
import time
from collections.abc import Iterable
from importlib import resources
from typing import Protocol

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.base import Transaction

CREATE_TABLE = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)
"""
APPLIED = """
SELECT number, name, sha256
FROM migration
ORDER BY number
"""
RECORD = """
INSERT INTO migration (number, name, sha256, applied_at)
VALUES (:number, :name, :sha256, :applied_at)
"""


class ScriptTransaction(Transaction, Protocol):
    def script(self, sql: str) -> None: ...


class Migrator(Protocol):
    """A database that can be changed by one process at a time."""

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


def known(dialect: str) -> list[Migration]:
    """The migrations this version ships for `sqlite` or `postgres`, in order."""
    found = []
    for file in resources.files("stoker.store").joinpath("migrations", dialect).iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found, key=lambda migration: migration.number)


def pending(applied: Iterable[tuple[int, str, str]], shipped: list[Migration]) -> list[Migration]:
    """What is still to be applied; refuses a database that is newer, or that was made by other text."""
    by_number = {migration.number: migration for migration in shipped}
    done = set()
    for number, name, sha256 in applied:
        migration = by_number.get(number)
        if migration is None:
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f"This database is of a newer Stoker: it has migration {number} ({name}), "
                f"and this version knows up to {max(by_number)}. Nothing was changed.",
                hint="Start the newer version, or restore a backup that this version made.",
            )
        if migration.sha256 != sha256:
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f"Migration {number} ({name}) of this database is not the one this version ships. Nothing was changed.",
                hint="Start the version that made this database, or restore a backup.",
            )
        done.add(number)
    return [migration for migration in shipped if migration.number not in done]


def migrate(migrator: Migrator, dialect: str) -> None:
    """Bring the database to the current schema, all or nothing."""
    transaction = migrator.begin()
    try:
        transaction.run(CREATE_TABLE)
        for migration in pending(((row[0], row[1], row[2]) for row in transaction.all(APPLIED)), known(dialect)):
            transaction.script(migration.sql)
            transaction.run(
                RECORD,
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
