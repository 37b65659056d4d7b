"""`stoker schema`."""

from typing import Any

import click
import msgspec

from stoker.cli.options import connection_options
from stoker.cli.session import connect


@click.command("schema")
@connection_options()
def command() -> None:
    """Print the JSON Schema of what `stoker submit -f` takes; editors check a file against it.

    \b
    stoker schema > job.schema.json
    """
    schema = for_files(connect().workloads.schema())
    click.echo(msgspec.json.format(msgspec.json.encode(schema), indent=2))


def for_files(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a create, as a file may have it: `script` in place of `entryPoint`, and nothing is required."""
    script = {"type": "string", "description": "The start-up script as plain text."}
    return {**schema, "$defs": {name: _eased(name, each, script) for name, each in schema.get("$defs", {}).items()}}


def _eased(name: str, part: dict[str, Any], script: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "CreateWorkload":
            return {**part, "required": [], "properties": {**part["properties"], "script": script}}
        case "ResourceBody":
            return {**part, "required": []}
        case _:
            return part
