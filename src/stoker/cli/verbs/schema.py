"""`stoker schema`."""

import click
import msgspec

from stoker.cli.options import connection_options
from stoker.cli.session import connect


@click.command("schema")
@connection_options()
def command() -> None:
    """Print the JSON Schema of what `stoker submit -f` takes; editors check a file against it."""
    click.echo(msgspec.json.format(msgspec.json.encode(connect().workloads.schema()), indent=2))
