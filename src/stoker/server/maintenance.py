"""What is done to an installation from beside it: backup and restore of its SQLite database."""

from stoker.store.backup import BackupReport, RestoreReport, backup, restore

__all__ = ["BackupReport", "RestoreReport", "backup", "restore"]
