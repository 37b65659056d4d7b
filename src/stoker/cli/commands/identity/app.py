"""`stoker app`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.edits import given
from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, is_text, say, show_done, show_list, show_one
from stoker.cli.session import connect
from stoker.domain.identity import MemberRole

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.shapes import NewApplication

COLUMNS = (
    Column("NAME", "name"),
    Column("CLIENT ID", "clientId"),
    Column("ROLE", "role"),
    Column("DISABLED", "disabled"),
    Column("LAST USED", "lastUsedAt"),
    Column("DESCRIPTION", "description", wide=True),
    Column("CREATED", "createdAt", wide=True),
)
SECRETS = (
    Column("Name", "application.name"),
    Column("Client id", "clientId"),
    Column("Client secret", "clientSecret"),
)


@click.group("app", cls=Verbs)
@reaches_server
def command() -> None:
    """Applications: programs that sign in by client id and secret. An application is named by NAME or client id."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@reaches_server
def list_applications(name: str) -> None:
    """List applications.

    \b
    stoker app list
    """
    show_list(connect().applications.list(name=name), COLUMNS)


@command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@click.option("--workspace", "workspaces", metavar="NAME", multiple=True, help="Member of just these; can be repeated.")
@click.option("--workspace-role", type=OneOf(MemberRole), help="What it is there [default member].")
@reaches_server
def create(name: str, description: str, workspaces: tuple[str, ...], workspace_role: MemberRole | None) -> None:
    """Add an application. Without workspaces it is an admin. Its secret is printed this once.

    \b
    stoker app create ci --workspace vision --json
    """
    made = connect().applications.create(
        name,
        description=description,
        workspaces=workspaces,
        workspace_role=given(workspace_role),
    )
    _show_secret(made)


@command.command("renew-secret")
@click.argument("name")
@yes_option
@reaches_server
def renew_secret(name: str, yes: bool) -> None:
    """Give an application a new secret; the old one and its tokens stop working.

    \b
    stoker app renew-secret ci
    """
    confirm(f"Give application {name} a new secret? The old one stops working.", yes)
    client = connect()
    _show_secret(client.applications.renew_secret(_client_id(client, name)))


@command.command("disable")
@click.argument("name")
@reaches_server
def disable(name: str) -> None:
    """Switch an application off; its tokens stop working at once.

    \b
    stoker app disable ci
    """
    client = connect()
    edited = client.applications.edit(_client_id(client, name), disabled=True)
    show_done(edited, COLUMNS, f"Disabled application {edited.name}.")


@command.command("enable")
@click.argument("name")
@reaches_server
def enable(name: str) -> None:
    """Switch an application on again.

    \b
    stoker app enable ci
    """
    client = connect()
    edited = client.applications.edit(_client_id(client, name), disabled=False)
    show_done(edited, COLUMNS, f"Enabled application {edited.name}.")


@command.command("delete")
@click.argument("name")
@yes_option
@reaches_server
def delete(name: str, yes: bool) -> None:
    """Remove an application.

    \b
    stoker app delete ci
    """
    confirm(f"Delete application {name}?", yes)
    client = connect()
    client.applications.delete(_client_id(client, name))
    say(f"Deleted application {name}.")


def _client_id(client: "Stoker", name: str) -> str:
    """The id of the application of this name; a name that no application has is taken for an id."""
    same = (found.client_id for found in client.applications.list(name=name) if found.name == name)
    return next(same, name)


def _show_secret(made: "NewApplication") -> None:
    show_one(made, SECRETS)
    if is_text():
        role = " It is an admin: it may do everything." if made.application.role == "admin" else ""
        click.echo(f"The secret is shown this once.{role}", err=True)
