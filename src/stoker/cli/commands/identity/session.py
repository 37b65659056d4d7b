"""`stoker login`, `stoker logout` and `stoker whoami`."""

import sys

import click

from stoker.cli.core.connection import connect, connect_anonymously, selected_server
from stoker.cli.core.credentials import StoredLogIn, remove_login, store_login, stored_logins
from stoker.cli.core.options import CREDENTIAL_KEY, server_options
from stoker.cli.input.passwords import prompt_password, read_password_lines
from stoker.cli.render.output import Column, is_text, print_message, show_one, show_result
from stoker.client import ErrorCode, StokerError, Unreachable
from stoker.client.transport.server_address import DEFAULT_SERVER, is_loopback
from stoker.client.transport.unix_socket import local_server_address

LOGIN_COLUMNS = (Column("Server", "server"), Column("User", "user.name"), Column("Expires", "expiresAt"))


@click.command("login")
@click.option("--username", "-u", metavar="NAME", help="User name; asked for if omitted.")
@click.option("--password-stdin", is_flag=True, help="Read the password from stdin.")
@server_options
def login_command(username: str | None, password_stdin: bool) -> None:
    """Sign in with a password.

    The token of the server is stored in ~/.config/stoker/credentials.json and used for all further commands.

    \b
    stoker --server https://stoker.example login -u li.wei
    """
    client = connect_anonymously()
    if client.server.startswith("http:") and not is_loopback(client.server):
        click.echo(f"Warning: {client.server} is plain HTTP; the password can be read on the way.", err=True)
    if username is None:
        if password_stdin or not sys.stdin.isatty():
            raise click.UsageError("Say who you are with --username.")
        username = click.prompt("User name", err=True)
    password = read_password_lines()[0] if password_stdin else prompt_password("Password")
    found = client.login(username, password)
    expires_at = found.expires_at.isoformat()
    store_login(
        client.server, StoredLogIn(token=found.access_token or "", username=found.user.name, expires_at=expires_at)
    )
    shown = {"server": client.server, "user": found.user, "expiresAt": found.expires_at}
    show_result(
        shown,
        LOGIN_COLUMNS,
        f"Signed in as {found.user.name} at {client.server} until {found.expires_at:%Y-%m-%d %H:%M:%SZ}.",
    )
    if client.server not in {DEFAULT_SERVER, local_server_address()}:
        print_message(f"To use this server from now on: export STOKER_SERVER={client.server}")


@click.command("logout")
@server_options
def logout_command() -> None:
    """Sign out: end the session on the server and delete its token on this machine.

    \b
    stoker logout
    """
    server = selected_server()
    if server not in stored_logins():
        print_message(f"There is no log-in for {server}.")
        return
    try:
        connect().logout()
    except Unreachable as error:
        remove_login(server)
        print_message(f"Deleted the log-in for {server}. It could not be ended there: {error.message}")
        return
    except StokerError as error:
        if error.code is not ErrorCode.UNAUTHENTICATED:
            raise
    remove_login(server)
    print_message(f"Signed out of {server}.")


WHOAMI_COLUMNS = (
    Column("User", "user.name"),
    Column("Role", "user.role"),
    Column("Full name", "user.fullName"),
    Column("Workspaces", "workspaces"),
    Column("Credential", "credential"),
    Column("Scopes", "scopes"),
)
WHOAMI_TEXT_COLUMNS = (*WHOAMI_COLUMNS, Column("From", "source"), Column("Server", "server"))


@click.command("whoami")
@server_options
@click.pass_context
def whoami_command(ctx: click.Context) -> None:
    """Show the user that you are signed in as, and the credential in use.

    \b
    stoker whoami
    """
    client = connect()
    me = client.me()
    if not is_text():
        show_one(me, WHOAMI_COLUMNS)
        return
    shown = {
        "user": me.user,
        "workspaces": [f"{held.workspace} ({held.role})" for held in me.workspaces],
        "credential": me.credential,
        "scopes": me.scopes or "no limit",
        "source": ctx.meta[CREDENTIAL_KEY],
        "server": client.server,
    }
    show_one(shown, WHOAMI_TEXT_COLUMNS)
