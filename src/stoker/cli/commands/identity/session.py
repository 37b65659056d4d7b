"""`stoker login`: a password once, a token from then on."""

import sys

import click

from stoker.cli.credentials import StoredLogIn, keep
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, say, show_done
from stoker.cli.passwords import ask, from_stdin
from stoker.cli.session import connect_unsigned
from stoker.client.address import DEFAULT_SERVER, is_loopback

COLUMNS = (Column("Server", "server"), Column("User", "user.name"), Column("Expires", "expiresAt"))


@click.command("login")
@click.option("--username", "-u", metavar="NAME", help="Who you are; asked for when left out.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin.")
@reaches_server
def command(username: str | None, password_stdin: bool) -> None:
    """Sign in with a password.

    The token that the server gives is kept in ~/.config/stoker/credentials.json and used for that server from then on.

    \b
    stoker --server https://stoker.example login -u li.wei
    """
    client = connect_unsigned()
    if client.server.startswith("http:") and not is_loopback(client.server):
        click.echo(f"Warning: {client.server} is plain HTTP; the password can be read on the way.", err=True)
    if username is None:
        if password_stdin or not sys.stdin.isatty():
            raise click.UsageError("Say who you are with --username.")
        username = click.prompt("User name", err=True)
    password = from_stdin()[0] if password_stdin else ask("Password")
    found = client.login(username, password)
    expires_at = found.expires_at.isoformat()
    keep(client.server, StoredLogIn(token=found.access_token, username=found.user.name, expires_at=expires_at))
    shown = {"server": client.server, "user": found.user, "expiresAt": found.expires_at}
    show_done(
        shown,
        COLUMNS,
        f"Signed in as {found.user.name} at {client.server} until {found.expires_at:%Y-%m-%d %H:%M:%SZ}.",
    )
    if client.server != DEFAULT_SERVER:
        say(f"To use this server from now on: export STOKER_SERVER={client.server}")
