"""`stoker backup`."""

from pathlib import Path

import click

from stoker.cli.local import config_option, data_dir_option, sqlite_data_dir
from stoker.cli.options import output_options
from stoker.cli.output import Column, show_done

COLUMNS = (Column("File", "path"), Column("Bytes", "bytes"), Column("Schema", "migrations"))


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@data_dir_option
@config_option
@output_options()
def command(file: Path, force: bool, data_dir: str | None, config: str | None) -> None:
    """Copy the SQLite database of this machine's server to FILE, whether or not it is running.

    FILE holds hashes of passwords and keys: keep it as safe as the data directory.

    \b
    stoker backup stoker-monday.db
    """
    from stoker.server.maintenance import backup

    report = backup(sqlite_data_dir(data_dir, config), file, force)
    shown = {"path": str(report.path), "bytes": report.bytes, "migrations": report.migrations}
    show_done(shown, COLUMNS, f"Wrote {report.path} ({report.bytes:,} bytes, schema {report.migrations}).")
