"""`stoker version`, `stoker completion` and `stoker schema`."""

import platform
from typing import Any

import click
import msgspec

from stoker import __version__
from stoker.cli.core.connection import connect
from stoker.cli.core.errors import CommandError
from stoker.cli.core.options import connection_options, output_options
from stoker.cli.render.output import Column, is_text, show_one

VERSION_COLUMNS = (Column("Stoker", "version"), Column("Python", "python"))


@click.command("version")
@output_options()
def version_command() -> None:
    """Show the version of this client; `stoker check` shows the server's.

    \b
    stoker version
    """
    if is_text():
        click.echo(f"stoker {__version__}")
    else:
        show_one({"version": __version__, "python": platform.python_version()}, VERSION_COLUMNS)


SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash: eval "$(stoker completion bash)"    in ~/.bashrc
    zsh:  eval "$(stoker completion zsh)"     in ~/.zshrc
    fish: stoker completion fish > ~/.config/fish/completions/stoker.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script is None:
        raise CommandError(f"There is no completion for {shell}.")
    click.echo(script(ctx.find_root().command, {}, "stoker", "_STOKER_COMPLETE").source())


@click.command("schema")
@connection_options()
def schema_command() -> None:
    """Print the JSON Schema of the file that `stoker submit -f` reads; editors can validate a file with it.

    \b
    stoker schema > job.schema.json
    """
    schema = to_file_schema(connect().workloads.schema())
    click.echo(msgspec.json.format(msgspec.json.encode(schema), indent=2))


def to_file_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a create request, as a file may have it: `script` instead of `entryPoint`, and no required
    fields."""
    script = {"type": "string", "description": "The start-up script as plain text."}
    return {
        **schema,
        "$defs": {name: _relax_definition(name, each, script) for name, each in schema.get("$defs", {}).items()},
    }


def _relax_definition(name: str, part: dict[str, Any], script: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "CreateWorkload":
            return {**part, "required": [], "properties": {**part["properties"], "script": script}}
        case "ResourceBody":
            return {**part, "required": []}
        case _:
            return part
