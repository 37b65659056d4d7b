"""Options that every verb understands, before it and after it. The last one given wins."""

import os
import sys
from collections.abc import Callable, Collection
from enum import StrEnum
from typing import Any, TypeVar

import click

OUTPUTS = ("table", "wide", "json", "yaml", "csv")
SERVER, TOKEN, OUTPUT, CREDENTIAL = "stoker.server", "stoker.token", "stoker.output", "stoker.credential"
"""Where the choices are kept in the context; CREDENTIAL is where the one in use came from."""

C = TypeVar("C", bound=Callable[..., Any])


class OneOf(click.Choice):
    """A choice of words that arrives as the enumeration it is."""

    def __init__(self, words: type[StrEnum], *, but: Collection[StrEnum] = ()) -> None:
        super().__init__([word.value for word in words if word not in but], case_sensitive=False)
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return self._words(super().convert(value, param, ctx))


def connection_options(*, from_environment: bool = False) -> Callable[[C], C]:
    """Which server, and as whom. Only the outermost options read the environment, so that flags win."""

    def add(command: C) -> C:
        token = click.option(
            "--token",
            metavar="TOKEN",
            expose_value=False,
            callback=_keep(TOKEN),
            envvar="STOKER_TOKEN" if from_environment else None,
            help="API key or access token; STOKER_TOKEN keeps it out of the process list.",
        )
        server = click.option(
            "--server",
            metavar="URL",
            expose_value=False,
            callback=_keep(SERVER),
            envvar="STOKER_SERVER" if from_environment else None,
            help="Server to talk to [STOKER_SERVER; default http://127.0.0.1:8080].",
        )
        return server(token(command))

    return add


def output_options(*, from_environment: bool = False) -> Callable[[C], C]:
    """How data is printed."""

    def add(command: C) -> C:
        short = click.option(
            "--json", is_flag=True, default=None, expose_value=False, callback=_keep_json, help="Short for -o json."
        )
        output = click.option(
            "-o",
            "--output",
            type=click.Choice(OUTPUTS),
            expose_value=False,
            callback=_keep(OUTPUT),
            envvar="STOKER_OUTPUT" if from_environment else None,
            help="How to print data [STOKER_OUTPUT; default table].",
        )
        return output(short(command))

    return add


def reaches_server(command: C) -> C:
    """The options of a verb that talks to a server."""
    return connection_options()(output_options()(command))


def typed(*words: str) -> str:
    """A command to type next, at the same server as this one."""
    import shlex

    server = click.get_current_context().meta.get(SERVER)
    named = server and server != os.environ.get("STOKER_SERVER")
    return " ".join(["stoker", *(["--server", shlex.quote(str(server))] if named else []), *words])


def yes_option(command: C) -> C:
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, yes: bool) -> None:
    """Go on only if the user agrees; where nobody can be asked, --yes must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: add --yes to go on.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was done.", err=True)
        click.get_current_context().exit(1)


def _keep(key: str) -> Callable[[click.Context, click.Parameter, str | None], None]:
    def keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value:
            ctx.meta[key] = value

    return keep


def _keep_json(ctx: click.Context, param: click.Parameter, value: bool | None) -> None:
    if value:
        ctx.meta[OUTPUT] = "json"
