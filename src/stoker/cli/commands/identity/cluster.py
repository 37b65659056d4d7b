"""`stoker cluster`."""

import click

from stoker.cli.groups import Verbs
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, show_list, show_one
from stoker.cli.session import connect

COLUMNS = (
    Column("NAME", "name"),
    Column("ENGINE", "engine"),
    Column("DESCRIPTION", "description"),
    Column("CREATED", "createdAt", wide=True),
    Column("ID", "id", wide=True),
)


@click.group("cluster", cls=Verbs)
@reaches_server
def command() -> None:
    """Clusters, where workloads run."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@reaches_server
def list_clusters(name: str) -> None:
    """List clusters.

    \b
    stoker cluster list
    """
    show_list(connect().clusters.list(name=name), COLUMNS)


@command.command("show")
@click.argument("name")
@reaches_server
def show(name: str) -> None:
    """Show one cluster, by name or id.

    \b
    stoker cluster show local
    """
    show_one(connect().clusters.get(name), COLUMNS)
