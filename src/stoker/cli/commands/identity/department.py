"""`stoker department`."""

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import confirm, server_options, yes_option
from stoker.cli.render.output import Column, print_message, show_list, show_one, show_result

COLUMNS = (
    Column("NAME", "name"),
    Column("DESCRIPTION", "description"),
    Column("CREATED", "createdAt", wide=True),
    Column("UPDATED", "updatedAt", wide=True),
    Column("ID", "id", wide=True),
)


@click.group("department", cls=CommandGroup)
@server_options
def department_command() -> None:
    """Departments, which group workspaces."""


@department_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@server_options
def list_departments(name: str) -> None:
    """List departments.

    \b
    stoker department list
    """
    show_list(connect().departments.list(name=name), COLUMNS)


@department_command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@server_options
def create(name: str, description: str) -> None:
    """Add a department.

    \b
    stoker department create research
    """
    made = connect().departments.create(name, description=description)
    show_result(made, COLUMNS, f"Created department {made.name}.")


@department_command.command("show")
@click.argument("name")
@server_options
def show(name: str) -> None:
    """Show one department.

    \b
    stoker department show research
    """
    show_one(connect().departments.get(name), COLUMNS)


@department_command.command("edit")
@click.argument("name")
@click.option("--description", required=True, metavar="TEXT", help="Description.")
@server_options
def edit(name: str, description: str) -> None:
    """Change a department's description.

    \b
    stoker department edit research --description "Models of the world"
    """
    edited = connect().departments.edit(name, description=description)
    show_result(edited, COLUMNS, f"Changed department {edited.name}.")


@department_command.command("delete")
@click.argument("name")
@yes_option
@server_options
def delete(name: str, yes: bool) -> None:
    """Remove a department that has no workspaces.

    \b
    stoker department delete research
    """
    confirm(f"Delete department {name}?", yes)
    connect().departments.delete(name)
    print_message(f"Deleted department {name}.")
