"""`stoker department`."""

import click

from stoker.cli.groups import Verbs
from stoker.cli.options import confirm, reaches_server, yes_option
from stoker.cli.output import Column, say, show_done, show_list, show_one
from stoker.cli.session import connect

COLUMNS = (
    Column("NAME", "name"),
    Column("DESCRIPTION", "description"),
    Column("CREATED", "createdAt", wide=True),
    Column("UPDATED", "updatedAt", wide=True),
    Column("ID", "id", wide=True),
)


@click.group("department", cls=Verbs)
@reaches_server
def command() -> None:
    """Departments, which hold workspaces."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@reaches_server
def list_departments(name: str) -> None:
    """List departments.

    \b
    stoker department list
    """
    show_list(connect().departments.list(name=name), COLUMNS)


@command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@reaches_server
def create(name: str, description: str) -> None:
    """Add a department.

    \b
    stoker department create research
    """
    made = connect().departments.create(name, description=description)
    show_done(made, COLUMNS, f"Created department {made.name}.")


@command.command("show")
@click.argument("name")
@reaches_server
def show(name: str) -> None:
    """Show one department.

    \b
    stoker department show research
    """
    show_one(connect().departments.get(name), COLUMNS)


@command.command("edit")
@click.argument("name")
@click.option("--description", required=True, metavar="TEXT", help="What it is for.")
@reaches_server
def edit(name: str, description: str) -> None:
    """Change a department's description.

    \b
    stoker department edit research --description "Models of the world"
    """
    edited = connect().departments.edit(name, description=description)
    show_done(edited, COLUMNS, f"Changed department {edited.name}.")


@command.command("delete")
@click.argument("name")
@yes_option
@reaches_server
def delete(name: str, yes: bool) -> None:
    """Remove a department that has no workspaces.

    \b
    stoker department delete research
    """
    confirm(f"Delete department {name}?", yes)
    connect().departments.delete(name)
    say(f"Deleted department {name}.")
