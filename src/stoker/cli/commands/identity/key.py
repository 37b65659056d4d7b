"""`stoker key`."""

from datetime import datetime

import click

from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, is_text, say, show_list, show_one
from stoker.cli.session import connect
from stoker.cli.when import Moment
from stoker.domain.identity import Scope

COLUMNS = (
    Column("ID", "id"),
    Column("NAME", "name"),
    Column("USER", "user"),
    Column("SCOPES", "scopes", empty="all"),
    Column("NETWORKS", "cidrs", empty="all"),
    Column("EXPIRES", "expiresAt", empty="never"),
    Column("LAST USED", "lastUsedAt"),
    Column("BEGINS", "hint", wide=True),
    Column("LAST USED FROM", "lastUsedFrom", wide=True),
    Column("CREATED", "createdAt", wide=True),
)
NEW = (
    *(Column(column.title, f"key.{column.path}", empty=column.empty) for column in COLUMNS),
    Column("SECRET", "secret"),
)


@click.group("key", cls=Verbs)
@reaches_server
def command() -> None:
    """API keys, for programs that act as a user."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@click.option("--user", default="", metavar="NAME", help="Whose keys; an admin sees everyone's without it.")
@reaches_server
def list_keys(name: str, user: str) -> None:
    """List API keys. Their secrets are not known any more.

    \b
    stoker key list --user li.wei
    """
    show_list(connect().keys.list(name=name, user=user), COLUMNS)


@command.command("create")
@click.argument("name")
@click.option("--user", default="", metavar="NAME", help="For whom [default yourself].")
@click.option("--scope", "scopes", type=OneOf(Scope), multiple=True, help="Limit it to this; can be repeated.")
@click.option("--cidr", "cidrs", metavar="NETWORK", multiple=True, help="Usable from here only; can be repeated.")
@click.option("--expires", type=Moment(ago=False), metavar="TIME", help="Such as 90d or 2027-01-31T00:00:00Z.")
@reaches_server
def create(name: str, user: str, scopes: tuple[Scope, ...], cidrs: tuple[str, ...], expires: datetime | None) -> None:
    """Make an API key. Its secret is printed on stdout, this once.

    \b
    stoker key create nightly --scope workloads --cidr 10.0.0.0/8 --expires 90d
    """
    made = connect().keys.create(name, user=user, scopes=scopes, cidrs=cidrs, expires_at=expires)
    if not is_text():
        show_one(made, NEW)
        return
    click.echo(
        f"Created key {made.key.name} ({made.key.id}) of {made.key.user}. Its secret, shown this once:", err=True
    )
    say(made.secret)


@command.command("delete")
@click.argument("key_id", metavar="ID")
@yes_option
@reaches_server
def delete(key_id: str, yes: bool) -> None:
    """Revoke an API key, at once.

    \b
    stoker key delete 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    confirm(f"Revoke key {key_id}?", yes)
    connect().keys.delete(key_id)
    say(f"Revoked key {key_id}.")
