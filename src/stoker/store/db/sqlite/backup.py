"""Copies of the SQLite database, made and put back while a server runs.

A file appears under its name only when it is whole and on disk. A restore is one transaction in the live
file, so every reader sees the old rows or the new ones; what was there before is kept beside it.
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
from stoker.store.migrate import APPLIED, known, pending
from stoker.store.sqlite_file import FILE, DataDirLock, connect

WAIT_SECONDS = 30.0
DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class BackupReport(Struct, frozen=True):
    path: Path
    bytes: int
    migrations: int


class RestoreReport(Struct, frozen=True):
    """`kept` is the copy of what was there before; `pending` says how many migrations the next start will apply."""

    path: Path
    kept: Path | None
    migrations: int
    pending: int
    while_running: bool


def backup(data_dir: Path, target: Path, force: bool) -> BackupReport:
    """Write a consistent copy of the data dir's database to the target, whether or not a server runs."""
    live = data_dir / FILE
    with _explaining(target):
        if not live.is_file():
            raise StokerError(
                ErrorCode.NOT_FOUND,
                f"There is no database {live}.",
                hint="Name the data dir of the server with --data-dir. PostgreSQL is backed up with pg_dump.",
            )
        _refuse_target(target, live, force)
        with contextlib.closing(connect(live, read_only=True)) as source:
            migrations = _copy_to_file(source, target, check=True)
        return BackupReport(target, target.stat().st_size, migrations)


def _refuse_target(target: Path, live: Path, force: bool) -> None:
    if target.is_dir():
        raise StokerError(ErrorCode.EXISTS, f"{target} is a folder. Name a file.")
    if target.exists() and target.samefile(live):
        raise StokerError(ErrorCode.STATE_FORBIDS, f"{target} is the database itself. Name another file.")
    if target.exists() and not force:
        raise StokerError(
            ErrorCode.EXISTS, f"{target} already exists.", hint="Name another file, or overwrite it with --force."
        )


def restore(source: Path, data_dir: Path) -> RestoreReport:
    """Put a backup in the place of the data dir's database, whether or not a server runs."""
    live = data_dir / FILE
    with _explaining(live), contextlib.ExitStack() as held:
        if not source.is_file():
            raise StokerError(ErrorCode.NOT_FOUND, f"There is no backup {source}.")
        if live.exists() and source.samefile(live):
            raise StokerError(ErrorCode.STATE_FORBIDS, f"{source} is the database itself. Name a backup of it.")
        origin = held.enter_context(contextlib.closing(_open_backup(source)))
        applied, behind = _examine(origin, source)
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        running = not _take_lock(data_dir, held)
        if running and (behind or not live.exists()):
            reason = f"is {behind} migrations behind" if behind else "cannot replace a database that is missing"
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f"{source} {reason}, and a server is running on {data_dir}. Nothing was changed.",
                hint="Stop the server, restore, and start it again: it brings an older backup up to date.",
            )
        kept = held.enter_context(_keeping(live, running))
        with contextlib.closing(connect(live)) as destination:
            _copy(origin, destination)
            _take_leases_away(destination)
        _sync(data_dir)
    return RestoreReport(live, kept, applied, behind, running)


def _take_leases_away(restored: sqlite3.Connection) -> None:
    """Whoever drives a cluster by what it remembers has to begin again from what is there now."""
    has_leases = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'lease'"
    if restored.execute(has_leases).fetchone():
        number = time.time_ns() // 1_000_000
        restored.execute("UPDATE lease SET epoch = :epoch, expires_at = 0", {"epoch": number})


def _open_backup(source: Path) -> sqlite3.Connection:
    """Read-only, so that looking at a backup never changes it."""
    return sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _examine(backup: sqlite3.Connection, path: Path) -> tuple[int, int]:
    """How many migrations a healthy backup has, and how many it lacks; holds its state for the copy."""
    try:
        backup.execute("BEGIN")
        applied = backup.execute(APPLIED).fetchall()
        (verdict,) = backup.execute("PRAGMA integrity_check(1)").fetchone()
        orphan = backup.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.Error as error:
        raise _unusable(path, f"is not a database of Stoker ({error})") from error
    if not applied:
        raise _unusable(path, "is not a database of Stoker (it has no migrations)")
    if verdict != "ok":
        raise _unusable(path, f"is damaged ({verdict.splitlines()[-1]})")
    if orphan is not None:
        raise _unusable(path, f"is damaged (a row of {orphan[0]} refers to a missing row of {orphan[2]})")
    return len(applied), len(pending(applied, known("sqlite")))


def _unusable(path: Path, reason: str) -> StokerError:
    return StokerError(
        ErrorCode.STATE_FORBIDS, f"{path} {reason}. Nothing was changed.", hint="Restore another backup."
    )


def _take_lock(data_dir: Path, held: contextlib.ExitStack) -> bool:
    """Keep servers out until the restore is done; False when one is running already."""
    try:
        held.callback(DataDirLock(data_dir).release)
    except StokerError as error:
        if error.code is ErrorCode.STATE_FORBIDS:
            return False
        raise
    return True


@contextlib.contextmanager
def _keeping(live: Path, running: bool) -> Generator[Path | None]:
    """Keep what is there under another name, and bring it back if the restore fails."""
    moment = datetime.now(UTC)
    kept = live.with_name(f"{live.name}.before-restore-{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}Z")
    present, moved = live.exists(), False
    if present:
        try:
            with contextlib.closing(connect(live, read_only=True)) as source:
                _copy_to_file(source, kept, check=False)
        except sqlite3.DatabaseError as error:
            # Too damaged to be read: with no server on it, the file itself can step aside.
            if running or error.sqlite_errorcode & 0xFF not in DAMAGED:
                raise
            _move(live, kept)
            moved = True
    try:
        yield kept if present else None
    except BaseException:
        if moved or not present:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{live}{suffix}").unlink(missing_ok=True)
        if moved:
            _move(kept, live)
        raise


def _move(path: Path, target: Path) -> None:
    for suffix in ("-wal", "-shm", ""):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{target}{suffix}")


def _copy_to_file(source: sqlite3.Connection, target: Path, *, check: bool) -> int:
    """A copy that appears when it is whole; says how many migrations it has."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    migrations = 0
    try:
        with contextlib.closing(sqlite3.connect(part, isolation_level=None)) as copy:
            copy.execute("PRAGMA journal_mode = OFF")
            copy.execute("PRAGMA synchronous = OFF")
            _copy(source, copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # out of WAL, so that the copy is one file
            if check:
                migrations = _check(copy)
        _sync(part)
        part.replace(target)
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            Path(f"{part}{suffix}").unlink(missing_ok=True)
    _sync(target.parent)
    return migrations


def _check(copy: sqlite3.Connection) -> int:
    (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise StokerError(
            ErrorCode.STATE_FORBIDS,
            f"The database is damaged ({verdict.splitlines()[-1]}); no backup was written.",
            hint="Restore an earlier backup: stoker restore.",
        )
    (migrations,) = copy.execute("SELECT COUNT(*) FROM migration").fetchone()
    return migrations


def _copy(source: sqlite3.Connection, destination: sqlite3.Connection) -> None:
    """All pages in one transaction, waiting a while for a writer to finish."""
    until = time.monotonic() + WAIT_SECONDS

    def watch(status: int, _remaining: int, _total: int) -> None:
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > until:
            raise StokerError(ErrorCode.BACKEND_DOWN, "The database is locked by another process. Nothing was changed.")

    source.backup(destination, progress=watch)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _explaining(path: Path) -> Generator[None]:
    """Turn a failure of the disk into a sentence about the file that was to be written."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if full or getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise StokerError(
                ErrorCode.BACKEND_DOWN,
                f"There is no space left to write {path}. Nothing was changed.",
                hint=f"Free some space (df {path.parent}), or name another place.",
            ) from error
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED:
            raise StokerError(
                ErrorCode.STATE_FORBIDS,
                f"The present database is damaged: {error}. Nothing was changed.",
                hint="Stop the server and restore a backup.",
            ) from error
        reason = error.strerror if isinstance(error, OSError) else error
        raise StokerError(
            ErrorCode.BACKEND_DOWN,
            f"{path} cannot be written: {reason}. Nothing was changed.",
            hint=f"Check that {path.parent} exists and that you may write there.",
        ) from error
