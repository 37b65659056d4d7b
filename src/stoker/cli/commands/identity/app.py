"""`stoker app`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, confirm, server_options, yes_option
from stoker.cli.input.unset import value_or_unset
from stoker.cli.render.output import Column, is_text, print_message, show_list, show_one, show_result
from stoker.domain.access.identity import MemberRole

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.credentials import NewApplicationView

COLUMNS = (
    Column("NAME", "name"),
    Column("CLIENT ID", "clientId"),
    Column("ROLE", "role"),
    Column("DISABLED", "disabled"),
    Column("LAST USED", "lastUsedAt"),
    Column("DESCRIPTION", "description", wide=True),
    Column("CREATED", "createdAt", wide=True),
)
SECRET_COLUMNS = (
    Column("Name", "application.name"),
    Column("Client id", "clientId"),
    Column("Client secret", "clientSecret"),
)


@click.group("app", cls=CommandGroup)
@server_options
def app_command() -> None:
    """Applications: programs that sign in with a client id and a secret. Refer to one by NAME or client id."""


@app_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@server_options
def list_applications(name: str) -> None:
    """List applications.

    \b
    stoker app list
    """
    show_list(connect().applications.list(name=name), COLUMNS)


@app_command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@click.option(
    "--workspace",
    "workspaces",
    metavar="NAME",
    multiple=True,
    help="Make it a member of this workspace; can be repeated.",
)
@click.option("--workspace-role", type=EnumChoice(MemberRole), help="Its role in these workspaces [default member].")
@click.option("--admin", is_flag=True, help="Make it an admin instead of a member.")
@server_options
def create(
    name: str, description: str, workspaces: tuple[str, ...], workspace_role: MemberRole | None, admin: bool
) -> None:
    """Add an application: a member of workspaces, or an admin. Its secret is printed only now.

    \b
    stoker app create ci --workspace vision --json
    stoker app create provisioning --admin
    """
    if admin and (workspaces or workspace_role):
        raise click.UsageError("An admin is a member of no workspace: use --admin or --workspace.")
    if not (admin or workspaces):
        raise click.UsageError("Say of which workspaces it is a member, by --workspace NAME, or make it an --admin.")
    made = connect().applications.create(
        name,
        description=description,
        admin=admin,
        workspaces=workspaces,
        workspace_role=value_or_unset(workspace_role),
    )
    _show_secret(made)


@app_command.command("renew-secret")
@click.argument("name")
@yes_option
@server_options
def renew_secret(name: str, yes: bool) -> None:
    """Issue a new secret for an application; the old secret and its tokens stop working.

    \b
    stoker app renew-secret ci
    """
    confirm(f"Give application {name} a new secret? The old one stops working.", yes)
    client = connect()
    _show_secret(client.applications.renew_secret(_client_id(client, name)))


@app_command.command("disable")
@click.argument("name")
@server_options
def disable(name: str) -> None:
    """Disable an application; its tokens stop working at once.

    \b
    stoker app disable ci
    """
    client = connect()
    edited = client.applications.edit(_client_id(client, name), disabled=True)
    show_result(edited, COLUMNS, f"Disabled application {edited.name}.")


@app_command.command("enable")
@click.argument("name")
@server_options
def enable(name: str) -> None:
    """Enable an application again.

    \b
    stoker app enable ci
    """
    client = connect()
    edited = client.applications.edit(_client_id(client, name), disabled=False)
    show_result(edited, COLUMNS, f"Enabled application {edited.name}.")


@app_command.command("delete")
@click.argument("name")
@yes_option
@server_options
def delete(name: str, yes: bool) -> None:
    """Remove an application.

    \b
    stoker app delete ci
    """
    confirm(f"Delete application {name}?", yes)
    client = connect()
    client.applications.delete(_client_id(client, name))
    print_message(f"Deleted application {name}.")


def _client_id(client: "Stoker", name: str) -> str:
    """The client id of the application with this name; an unknown name is taken for a client id."""
    same = (found.client_id for found in client.applications.list(name=name) if found.name == name)
    return next(same, name)


def _show_secret(made: "NewApplicationView") -> None:
    show_one(made, SECRET_COLUMNS)
    if is_text():
        role = " It is an admin: it may do everything." if made.application.role == "admin" else ""
        click.echo(f"The secret is shown this once.{role}", err=True)
