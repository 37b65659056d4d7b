"""`stoker key`."""

from datetime import datetime
from pathlib import Path

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, confirm, server_options, yes_option
from stoker.cli.core.settings_options import config_option, data_dir_option, load_settings
from stoker.cli.input.time_params import InstantParam
from stoker.cli.render.output import Column, is_text, print_message, show_list, show_one, show_result
from stoker.domain.access.identity import Scope

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
NEW_KEY_COLUMNS = (
    *(Column(column.title, f"key.{column.path}", empty=column.empty) for column in COLUMNS),
    Column("SECRET", "secret"),
)


@click.group("key", cls=CommandGroup)
@server_options
def key_command() -> None:
    """API keys, for programs that act as a user."""


@key_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@click.option("--user", default="", metavar="NAME", help="Only keys of this user; by default an admin sees all keys.")
@server_options
def list_keys(name: str, user: str) -> None:
    """List API keys. Their secrets are not stored and cannot be shown.

    \b
    stoker key list --user li.wei
    """
    show_list(connect().keys.list(name=name, user=user), COLUMNS)


@key_command.command("create")
@click.argument("name", required=False)
@click.option("--user", default="", metavar="NAME", help="Owner of the key [default yourself].")
@click.option(
    "--scope", "scopes", type=EnumChoice(Scope), multiple=True, help="Limit the key to this scope; can be repeated."
)
@click.option(
    "--cidr", "cidrs", metavar="NETWORK", multiple=True, help="Limit the key to this network; can be repeated."
)
@click.option("--expires", type=InstantParam(ago=False), metavar="TIME", help="Such as 90d or 2027-01-31T00:00:00Z.")
@click.option("--admin", is_flag=True, help="Write a new admin key to the data directory of this machine's server.")
@data_dir_option
@config_option
@server_options
def create(
    name: str | None,
    user: str,
    scopes: tuple[Scope, ...],
    cidrs: tuple[str, ...],
    expires: datetime | None,
    admin: bool,
    data_dir: str | None,
    config: str | None,
) -> None:
    """Create an API key. Its secret is printed on stdout, only now.

    With --admin, write a new admin key to the file admin.key of the data directory, whether or not the server runs.
    This needs the server's user or root on the server's machine. The previous key stops working at the first use of
    the new one.

    \b
    stoker key create nightly --scope workloads --cidr 10.0.0.0/8 --expires 90d
    stoker key create --admin
    """
    if admin:
        if name or user or scopes or cidrs or expires:
            raise click.UsageError("--admin takes no NAME and no limits: an admin key has none.")
        _create_admin_key(data_dir, config)
        return
    if not name:
        raise click.UsageError("Missing argument 'NAME'.")
    made = connect().keys.create(name, user=user, scopes=scopes, cidrs=cidrs, expires_at=expires)
    if not is_text():
        show_one(made, NEW_KEY_COLUMNS)
        return
    click.echo(
        f"Created key {made.key.name} ({made.key.id}) of {made.key.user}. Its secret, shown this once:", err=True
    )
    print_message(made.secret)


def _create_admin_key(data_dir: str | None, config: str | None) -> None:
    from stoker.server.maintenance import create_admin_key

    path = create_admin_key(Path(load_settings(config, {"data_dir": data_dir}).settings.data_dir))
    show_result({"file": str(path)}, (Column("File", "file"),), f"Wrote a new admin key to {path}.")


@key_command.command("delete")
@click.argument("key_id", metavar="ID")
@yes_option
@server_options
def delete(key_id: str, yes: bool) -> None:
    """Revoke an API key immediately.

    \b
    stoker key delete 3f2c7a54-0b1e-4c57-9d6c-0a5f0c6f4a11
    """
    confirm(f"Revoke key {key_id}?", yes)
    connect().keys.delete(key_id)
    print_message(f"Revoked key {key_id}.")
