"""Options that every command accepts, before and after its name. The last one given wins."""

import os
import sys
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, TypeVar

import click

OUTPUT_FORMATS = ("table", "wide", "json", "yaml", "csv")
SERVER_KEY, TOKEN_KEY, OUTPUT_KEY, CREDENTIAL_KEY = (
    "stoker.server",
    "stoker.token",
    "stoker.output",
    "stoker.credential",
)
"""Keys of the context's metadata; CREDENTIAL is the source of the credential in use."""

C = TypeVar("C", bound=Callable[..., Any])


class EnumChoice(click.Choice):
    """A choice whose value is a member of an enum."""

    def __init__(self, words: type[StrEnum], *, but: Collection[StrEnum] = ()) -> None:
        super().__init__([word.value for word in words if word not in but], case_sensitive=False)
        self._enum = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._enum(super().convert(value, param, ctx))


def connection_options(*, from_environment: bool = False) -> Callable[[C], C]:
    """The server and the token. Only the options of the root command read the environment, so that flags win."""

    def add(command: C) -> C:
        token = click.option(
            "--token",
            metavar="TOKEN",
            expose_value=False,
            callback=_store_in_context(TOKEN_KEY),
            envvar="STOKER_TOKEN" if from_environment else None,
            help="API key or access token; STOKER_TOKEN keeps it out of the process list.",
        )
        server = click.option(
            "--server",
            metavar="URL",
            expose_value=False,
            callback=_store_in_context(SERVER_KEY),
            envvar="STOKER_SERVER" if from_environment else None,
            help="Server to talk to [STOKER_SERVER; default that of this machine].",
        )
        return server(token(command))

    return add


def output_options(*, from_environment: bool = False) -> Callable[[C], C]:
    """The output format."""

    def add(command: C) -> C:
        short = click.option(
            "--json", is_flag=True, default=None, expose_value=False, callback=_store_json, help="Short for -o json."
        )
        output = click.option(
            "-o",
            "--output",
            type=click.Choice(OUTPUT_FORMATS),
            expose_value=False,
            callback=_store_in_context(OUTPUT_KEY),
            envvar="STOKER_OUTPUT" if from_environment else None,
            help="How to print data [STOKER_OUTPUT; default table].",
        )
        return output(short(command))

    return add


def server_options(command: C) -> C:
    """The options of a command that connects to a server."""
    return connection_options()(output_options()(command))


def command_line(*words: str) -> str:
    """A command for the user to type next, with the same server as the current one."""
    import shlex

    server = click.get_current_context().meta.get(SERVER_KEY)
    named = server and server != os.environ.get("STOKER_SERVER")
    return " ".join(["stoker", *(["--server", shlex.quote(str(server))] if named else []), *words])


def yes_option(command: C) -> C:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def require_terminal(question: str, yes: bool) -> None:
    """Refuse to prompt without a terminal."""
    if not yes and not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: add --yes to go on.")


def confirm(question: str, yes: bool) -> None:
    """Continue only if the user agrees; without a terminal, --yes is required."""
    require_terminal(question, yes)
    if not yes and not click.confirm(question, err=True):
        click.echo("Nothing was done.", err=True)
        click.get_current_context().exit(1)


def _store_in_context(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value:
            ctx.meta[key] = value

    return keep


def _store_json(ctx: click.Context, param: click.Parameter, value: bool | None) -> None:
    if value:
        ctx.meta[OUTPUT_KEY] = "json"
