"""`stoker restore`."""

from pathlib import Path

import click

from stoker.cli.local import config_option, data_dir_option, sqlite_data_dir
from stoker.cli.options import confirm, output_options, yes_option
from stoker.cli.output import Column, say, show_done

COLUMNS = (
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
def command(file: Path, yes: bool, data_dir: str | None, config: str | None) -> None:
    """Put the backup FILE in the place of the database, whether or not the server is running.

    What was there before is kept beside it.

    \b
    stoker restore stoker-monday.db
    """
    from stoker.server.maintenance import restore

    folder = sqlite_data_dir(data_dir, config)
    confirm(f"Replace the database in {folder} by {file}?", yes)
    report = restore(file, folder)
    kept = str(report.kept) if report.kept else None
    shown = {
        "path": str(report.path),
        "kept": kept,
        "migrations": report.migrations,
        "pending": report.pending,
        "whileRunning": report.while_running,
    }
    show_done(shown, COLUMNS, f"Restored {file} to {report.path}.")
    if kept:
        say(f"What was there before is in {kept}.")
    if report.pending:
        say(f"The next start brings it up to date ({report.pending} migrations).")
