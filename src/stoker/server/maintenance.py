"""Maintenance beside a running server: backup and restore of the SQLite database, and new admin keys."""

import secrets
from pathlib import Path

from stoker.domain.errors import ErrorCode, StokerError
from stoker.services.identity.admin_key import write_admin_key
from stoker.store.db.sqlite.backup import BackupReport, RestoreReport, backup, restore

__all__ = ["BackupReport", "RestoreReport", "backup", "create_admin_key", "restore"]


def create_admin_key(data_dir: Path) -> Path:
    """Write a new admin key to the data dir, whether or not its server runs; returns the file."""
    try:
        return write_admin_key(data_dir, secrets.token_bytes)
    except OSError as error:
        raise StokerError(
            ErrorCode.NOT_FOUND if isinstance(error, FileNotFoundError) else ErrorCode.FORBIDDEN,
            f"No admin key can be written into the data dir {data_dir}: {error.strerror}.",
            hint="Type this on the server's machine, as the server's user or root. Name its data dir with --data-dir.",
        ) from error
