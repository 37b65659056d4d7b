"""Backup and restore of the SQLite database, also while a server runs.

A backup appears under its name only when it is complete and on disk. A restore is one transaction on the live
file, so every reader sees either the old rows or the new ones; a copy of the previous database is kept beside it.
"""

import contextlib
import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.store.db.migrate import APPLIED_MIGRATIONS, pending_migrations, refuse_pre_release, shipped_migrations
from stoker.store.db.sqlite.connection import DATABASE_FILE, DataDirLock, connect

LOCK_TIMEOUT_SECONDS = 30.0
CORRUPTION_CODES = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class BackupReport(Struct, frozen=True):
    path: Path
    bytes: int
    migrations: int


class RestoreReport(Struct, frozen=True):
    """`previous_copy` is the copy of the replaced database; the next start applies `pending_migrations`."""

    path: Path
    previous_copy: Path | None
    migrations: int
    pending_migrations: int
    server_was_running: bool


def backup(data_dir: Path, target: Path, force: bool) -> BackupReport:
    """Write a consistent copy of the data dir's database to the target, whether or not a server runs."""
    live = data_dir / DATABASE_FILE
    with _translate_errors(target):
        if not live.is_file():
            raise StokerError(
                ErrorCode.NOT_FOUND,
                f"There is no database {live}.",
                hint="Name the data dir of the server with --data-dir. PostgreSQL is backed up with pg_dump.",
            )
        _check_target(target, live, force)
        with contextlib.closing(connect(live, read_only=True)) as source:
            migrations = _copy_to_file(source, target, check=True)
        return BackupReport(target, target.stat().st_size, migrations)


def _check_target(target: Path, live: Path, force: bool) -> None:
    if target.is_dir():
        raise StokerError(ErrorCode.ALREADY_EXISTS, f"{target} is a folder. Name a file.")
    if target.exists() and target.samefile(live):
        raise StokerError(ErrorCode.CONFLICT, f"{target} is the database itself. Name another file.")
    if target.exists() and not force:
        raise StokerError(
            ErrorCode.ALREADY_EXISTS,
            f"{target} already exists.",
            hint="Name another file, or overwrite it with --force.",
        )


def restore(source: Path, data_dir: Path) -> RestoreReport:
    """Replace the data dir's database with a backup, whether or not a server runs."""
    live = data_dir / DATABASE_FILE
    with _translate_errors(live), contextlib.ExitStack() as resources:
        if not source.is_file():
            raise StokerError(ErrorCode.NOT_FOUND, f"There is no backup {source}.")
        if live.exists() and source.samefile(live):
            raise StokerError(ErrorCode.CONFLICT, f"{source} is the database itself. Name a backup of it.")
        backup_connection = resources.enter_context(contextlib.closing(_open_backup(source)))
        applied, pending = _validate_backup(backup_connection, source)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        running = not _acquire_lock(data_dir, resources)
        if running and (pending or not live.exists()):
            reason = f"is {pending} migrations behind" if pending else "cannot replace a database that is missing"
            raise StokerError(
                ErrorCode.CONFLICT,
                f"{source} {reason}, and a server is running on {data_dir}. Nothing was changed.",
                hint="Stop the server, restore, and start it again: it migrates an older backup.",
            )
        previous_copy = resources.enter_context(_preserve_current(live, running))
        with contextlib.closing(connect(live)) as destination:
            _copy_pages(backup_connection, destination)
            _expire_leases(destination)
        _fsync(data_dir)
    return RestoreReport(live, previous_copy, applied, pending, running)


def _expire_leases(restored: sqlite3.Connection) -> None:
    """Expire all leases with a new epoch, so that a running controller discards its caches and starts over."""
    has_leases = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'lease'"
    if restored.execute(has_leases).fetchone():
        epoch = time.time_ns() // 1_000_000
        restored.execute("UPDATE lease SET epoch = :epoch, expires_at = 0", {"epoch": epoch})


def _open_backup(source: Path) -> sqlite3.Connection:
    """Open a backup read-only, so that checking it never changes it."""
    return sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _validate_backup(backup: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """Check a backup; returns how many migrations it has and how many it lacks.

    The read transaction stays open, so that the copy is of the state that was checked."""
    try:
        backup.execute("BEGIN")
        applied = backup.execute(APPLIED_MIGRATIONS).fetchall()
        (verdict,) = backup.execute("PRAGMA integrity_check(1)").fetchone()
        orphan = backup.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.Error as error:
        raise _unusable_backup_error(path, f"is not a Stoker database ({error})") from error
    if not applied:
        raise _unusable_backup_error(path, "is not a Stoker database (it has no migrations)")
    if verdict != "ok":
        raise _unusable_backup_error(path, f"is damaged ({verdict.splitlines()[-1]})")
    if orphan is not None:
        raise _unusable_backup_error(path, f"is damaged (a row of {orphan[0]} refers to a missing row of {orphan[2]})")
    return len(applied), len(pending_migrations(applied, shipped_migrations("sqlite")))


def _unusable_backup_error(path: Path, reason: str) -> StokerError:
    return StokerError(ErrorCode.CONFLICT, f"{path} {reason}. Nothing was changed.", hint="Restore another backup.")


def _acquire_lock(data_dir: Path, resources: contextlib.ExitStack) -> bool:
    """Lock the data dir until the restore is done; False if a server is already running on it."""
    try:
        resources.callback(DataDirLock(data_dir).release)
    except StokerError as error:
        if error.code is ErrorCode.CONFLICT:
            return False
        raise
    return True


@contextlib.contextmanager
def _preserve_current(live: Path, running: bool) -> Generator[Path | None]:
    """Copy the current database to another name; restores it if the body fails."""
    now = datetime.now(UTC)
    copy_path = live.with_name(f"{live.name}.before-restore-{now:%Y%m%dT%H%M%S}.{now.microsecond // 1000:03d}Z")
    present, moved = live.exists(), False
    if present:
        try:
            with contextlib.closing(connect(live, read_only=True)) as source:
                _copy_to_file(source, copy_path, check=False)
        except sqlite3.DatabaseError as error:
            # Too damaged to be copied. Without a server on it, the file itself can be renamed.
            if running or error.sqlite_errorcode & 0xFF not in CORRUPTION_CODES:
                raise
            _rename_database(live, copy_path)
            moved = True
    try:
        yield copy_path if present else None
    except BaseException:
        if moved or not present:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{live}{suffix}").unlink(missing_ok=True)
        if moved:
            _rename_database(copy_path, live)
        raise


def _rename_database(path: Path, target: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{target}{suffix}")


def _copy_to_file(source: sqlite3.Connection, target: Path, *, check: bool) -> int:
    """Write a copy that appears under its name only when complete; returns its number of migrations."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    migrations = 0
    try:
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            _copy_pages(source, copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # leave WAL mode, so that the copy is a single file
            if check:
                migrations = _check_integrity(copy)
        _fsync(part)
        part.replace(target)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
    _fsync(target.parent)
    return migrations


def _check_integrity(copy: sqlite3.Connection) -> int:
    (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StokerError(
            ErrorCode.CONFLICT,
            f"The database is damaged ({verdict.splitlines()[-1]}); no backup was written.",
            hint="Restore an earlier backup: stoker restore.",
        )
    applied = copy.execute(APPLIED_MIGRATIONS).fetchall()
    refuse_pre_release(applied)
    return len(applied)


def _copy_pages(source: sqlite3.Connection, destination: sqlite3.Connection) -> None:
    """Copy all pages in one transaction; waits up to LOCK_TIMEOUT_SECONDS for a writer to finish."""
    until = time.monotonic() + LOCK_TIMEOUT_SECONDS

    def watch(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > until:
            raise StokerError(ErrorCode.UNAVAILABLE, "The database is locked by another process. Nothing was changed.")

    source.backup(destination, progress=watch)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _translate_errors(path: Path) -> Generator[None]:
    """Translate disk and database failures into errors about the file that was to be written."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise StokerError(
                ErrorCode.UNAVAILABLE,
                f"There is no space left to write {path}. Nothing was changed.",
                hint=f"Free some space (df {path.parent}), or write to another disk.",
            ) from error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in CORRUPTION_CODES:
            raise StokerError(
                ErrorCode.CONFLICT,
                f"The current database is damaged: {error}. Nothing was changed.",
                hint="Stop the server and restore a backup.",
            ) from error
        reason = error.strerror if isinstance(error, OSError) else error
        raise StokerError(
            ErrorCode.UNAVAILABLE,
            f"{path} cannot be written: {reason}. Nothing was changed.",
            hint=f"Check that {path.parent} exists and that you may write there.",
        ) from error
