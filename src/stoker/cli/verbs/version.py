"""`stoker version`."""

import platform

import click

from stoker import __version__
from stoker.cli.options import output_options
from stoker.cli.output import Column, is_text, show_one

COLUMNS = (Column("Stoker", "version"), Column("Python", "python"))


@click.command("version")
@output_options()
def command() -> None:
    """Show the version of this client; `stoker check` shows the server's.

    \b
    stoker version
    """
    if is_text():
        click.echo(f"stoker {__version__}")
    else:
        show_one({"version": __version__, "python": platform.python_version()}, COLUMNS)
