"""Checks of the data dir and of the database, which is SQLite in the data dir or PostgreSQL."""

import contextlib
import fcntl
import os
import sqlite3
from pathlib import Path

from stoker.domain.cluster.quantity import MIB
from stoker.domain.diagnostics import Finding, broken, ok, warning
from stoker.domain.errors import StokerError
from stoker.domain.settings.schema import Settings, redacted_settings
from stoker.store.db.migrate import APPLIED_MIGRATIONS, pending_migrations, shipped_migrations
from stoker.store.db.sqlite.connection import DATABASE_FILE, connect
from stoker.store.db.sqlite.disk_reserve import DiskReserve, format_mib

LOW_SPACE_BYTES = 1024 * MIB


def check_data_dir(path: Path) -> Finding:
    name = "data dir"
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        return warning(name, f"{path} does not exist yet.", "stoker serve creates it at its first start.")
    except OSError as error:
        return broken(name, f"{path}: {error.strerror}.", "Choose another with --data-dir.")
    if not path.is_dir():
        return broken(name, f"{path} is not a directory.", "Choose another with --data-dir.")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return broken(name, f"{path} cannot be written by this user.", f"chown {os.getuid()} {path}")
    if mode & 0o077:
        return warning(name, f"{path} is open to other users (mode {mode:o}).", f"chmod 700 {path}")
    return ok(name, f"{path} is there, for its owner only.")


def check_disk_space(settings: Settings) -> Finding:
    """The free space on the disk of the data dir."""
    path = Path(settings.data_dir)
    existing = next(place for place in (path, *path.absolute().parents) if place.exists())
    disk = DiskReserve(existing, settings.low_space_bytes, settings.reserve_bytes)
    free = disk.free_bytes()
    message = f"{free / 2**30:.1f} GiB are free on the disk of {path}."
    if free < disk.low_bytes:
        refused = f"Below {format_mib(disk.low_bytes)} nothing new is accepted; stopping and deleting still work."
        return broken("space", f"{message} {refused}", "Free some space, or move the data dir.")
    if free < LOW_SPACE_BYTES:
        return warning("space", message, "Free some space.")
    return ok("space", message)


def lock_holder(path: Path) -> str | None:
    """The process id of the server that runs on this data dir; None if there is none."""
    try:
        handle = os.open(path / "stoker.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.read(handle, 32).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(handle)
    return None


def check_lock(path: Path, process: str | None) -> Finding:
    if process is None:
        return ok("lock", f"No server is running on {path}.")
    return ok("lock", f"A server (process {process}) is running on {path}.")


def check_database(settings: Settings) -> Finding:
    """Whether the database opens, is intact, and has a schema that this version supports."""
    if settings.database:
        return _check_postgres(settings)
    path = Path(settings.data_dir) / DATABASE_FILE
    if not path.exists():
        return warning("database", f"{path} does not exist yet.", "stoker serve creates it at its first start.")
    try:
        with contextlib.closing(connect(path, read_only=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            applied = connection.execute(APPLIED_MIGRATIONS).fetchall()
    except sqlite3.Error as error:
        return broken("database", f"{path} cannot be read: {error}.", "stoker restore FILE")
    if verdict != "ok":
        return broken("database", f"{path} is damaged: {verdict}.", "stoker restore FILE")
    return _check_schema(f"{path} is whole", applied, "sqlite")


def _check_postgres(settings: Settings) -> Finding:
    shown = redacted_settings(settings)["database"]
    try:
        import psycopg
    except ImportError:
        return broken("database", f"{shown} needs psycopg.", "pip install 'stoker[postgres]'")
    try:
        with psycopg.connect(settings.database, connect_timeout=5) as connection:
            applied = connection.execute(APPLIED_MIGRATIONS.encode()).fetchall()
    except psycopg.errors.UndefinedTable:
        return warning("database", f"{shown} is empty.", "stoker serve fills it at its first start.")
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[-1]
        return broken("database", f"{shown} cannot be used: {reason}", "Check --database.")
    return _check_schema(f"{shown} answers", applied, "postgres")


def _check_schema(state: str, applied: list[tuple[int, str, str]], dialect: str) -> Finding:
    try:
        behind = len(pending_migrations(applied, shipped_migrations(dialect)))
    except StokerError as error:
        return broken("database", error.message, error.hint)
    if behind:
        return warning("database", f"{state}; {behind} migrations are to come.", "stoker serve applies them.")
    return ok("database", f"{state}; its schema is current ({len(applied)} migrations).")
