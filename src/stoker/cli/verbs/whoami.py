"""`stoker whoami`."""

import click

from stoker.cli.options import CREDENTIAL, reaches_server
from stoker.cli.output import Column, is_text, show_one
from stoker.cli.session import connect

COLUMNS = (
    Column("User", "user.name"),
    Column("Role", "user.role"),
    Column("Full name", "user.fullName"),
    Column("Workspaces", "workspaces"),
    Column("Credential", "credential"),
    Column("Scopes", "scopes"),
)
FOR_A_PERSON = (*COLUMNS, Column("From", "source"), Column("Server", "server"))


@click.command("whoami")
@reaches_server
@click.pass_context
def command(ctx: click.Context) -> None:
    """Show who you are to the server, and through which credential.

    \b
    stoker whoami
    """
    client = connect()
    me = client.me()
    if not is_text():
        show_one(me, COLUMNS)
        return
    shown = {
        "user": me.user,
        "workspaces": [f"{held.workspace} ({held.role})" for held in me.workspaces],
        "credential": me.credential,
        "scopes": me.scopes or "no limit",
        "source": ctx.meta[CREDENTIAL],
        "server": client.server,
    }
    show_one(shown, FOR_A_PERSON)
