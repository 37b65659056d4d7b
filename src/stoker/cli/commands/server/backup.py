"""`stoker backup` and `stoker restore`."""

from pathlib import Path

import click

from stoker.cli.core.options import confirm, output_options, yes_option
from stoker.cli.core.settings_options import config_option, data_dir_option, sqlite_data_dir
from stoker.cli.render.output import Column, print_message, show_result

BACKUP_COLUMNS = (Column("File", "path"), Column("Bytes", "bytes"), Column("Schema", "migrations"))


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@data_dir_option
@config_option
@output_options()
def backup_command(file: Path, force: bool, data_dir: str | None, config: str | None) -> None:
    """Copy the SQLite database of this machine's server to FILE, whether or not it is running.

    FILE contains hashes of passwords and keys: protect it like the data directory.

    \b
    stoker backup stoker-monday.db
    """
    from stoker.server.maintenance import backup

    report = backup(sqlite_data_dir(data_dir, config), file, force)
    shown = {"path": str(report.path), "bytes": report.bytes, "migrations": report.migrations}
    show_result(shown, BACKUP_COLUMNS, f"Wrote {report.path} ({report.bytes:,} bytes, schema {report.migrations}).")


RESTORE_COLUMNS = (
    Column("Database", "path"),
    Column("Kept", "kept"),
    Column("Schema", "migrations"),
    Column("Pending", "pending"),
    Column("While running", "whileRunning"),
)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@yes_option
@data_dir_option
@config_option
@output_options()
def restore_command(file: Path, yes: bool, data_dir: str | None, config: str | None) -> None:
    """Replace the database with the backup FILE, whether or not the server is running.

    A copy of the previous database is kept in the data directory.

    \b
    stoker restore stoker-monday.db
    """
    from stoker.server.maintenance import restore

    folder = sqlite_data_dir(data_dir, config)
    confirm(f"Replace the database in {folder} by {file}?", yes)
    report = restore(file, folder)
    kept = str(report.previous_copy) if report.previous_copy else None
    shown = {
        "path": str(report.path),
        "kept": kept,
        "migrations": report.migrations,
        "pending": report.pending_migrations,
        "whileRunning": report.server_was_running,
    }
    show_result(shown, RESTORE_COLUMNS, f"Restored {file} to {report.path}.")
    if kept:
        print_message(f"The previous database is in {kept}.")
    if report.pending_migrations:
        print_message(f"The next start brings it up to date ({report.pending_migrations} migrations).")
