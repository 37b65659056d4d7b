"""`stoker user`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, command_line, confirm, require_terminal, server_options, yes_option
from stoker.cli.input.passwords import prompt_password, read_password_lines
from stoker.cli.input.unset import value_or_unset
from stoker.cli.remote.resolve import MAX_LISTED_IDS, summarize_ids
from stoker.cli.render.output import Column, print_message, show_list, show_one, show_result
from stoker.domain.access.identity import UserKind, UserRole
from stoker.domain.cluster.quantity import humanize_count

if TYPE_CHECKING:
    from stoker.client import Stoker

UNFINISHED_PHASES = ("Pending", "Running", "Updating")
STOP_BATCH_SIZE = 1000
"""The number of workloads that one request stops."""
COLUMNS = (
    Column("NAME", "name"),
    Column("ROLE", "role"),
    Column("KIND", "kind"),
    Column("FULL NAME", "fullName"),
    Column("EMAIL", "email"),
    Column("DISABLED", "disabled"),
    Column("DEFAULT WORKSPACE", "defaultWorkspace", wide=True),
    Column("CREATED", "createdAt", wide=True),
    Column("UPDATED", "updatedAt", wide=True),
    Column("ID", "id", wide=True),
)


@click.group("user", cls=CommandGroup)
@server_options
def user_command() -> None:
    """Users: who may sign in, and their role in the installation."""


@user_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name, full name or e-mail address.")
@click.option("--role", type=EnumChoice(UserRole), help="Only this role.")
@click.option("--kind", type=EnumChoice(UserKind), help="Only people, or only applications.")
@click.option("--disabled/--enabled", default=None, help="Only disabled users, or only enabled ones.")
@server_options
def list_users(name: str, role: UserRole | None, kind: UserKind | None, disabled: bool | None) -> None:
    """List users and applications.

    \b
    stoker user list -o wide
    """
    show_list(connect().users.list(name=name, role=role, kind=kind, disabled=disabled), COLUMNS)


@user_command.command("create")
@click.argument("name")
@click.option("--role", type=EnumChoice(UserRole), default=UserRole.USER.value, help="[default user]")
@click.option("--full-name", default="", metavar="TEXT", help="Full name.")
@click.option("--email", default="", metavar="ADDRESS", help="E-mail address.")
@click.option("--default-workspace", default="", metavar="NAME", help="Default workspace of its workloads.")
@click.option("--ask-password", is_flag=True, help="Ask for a password.")
@click.option("--password-stdin", is_flag=True, help="Read a password from stdin.")
@server_options
def create(
    name: str,
    role: UserRole,
    full_name: str,
    email: str,
    default_workspace: str,
    ask_password: bool,
    password_stdin: bool,
) -> None:
    """Add a user.

    Without a password the user signs in by API key only: stoker key create KEY --user NAME.

    \b
    stoker user create li.wei --email li.wei@example.com --ask-password
    """
    password = (
        read_password_lines()[0] if password_stdin else prompt_password("Password", twice=True) if ask_password else ""
    )
    made = connect().users.create(
        name,
        password=password,
        role=role,
        full_name=full_name,
        email=email,
        default_workspace=default_workspace,
    )
    show_result(made, COLUMNS, f"Created user {made.name}.")


@user_command.command("show")
@click.argument("name")
@server_options
def show(name: str) -> None:
    """Show one user.

    \b
    stoker user show li.wei
    """
    show_one(connect().users.get(name), COLUMNS)


@user_command.command("edit")
@click.argument("name")
@click.option("--role", type=EnumChoice(UserRole), help="Role in the installation.")
@click.option("--full-name", metavar="TEXT", help="Full name.")
@click.option("--email", metavar="ADDRESS", help="E-mail address.")
@click.option("--default-workspace", metavar="NAME", help='Default workspace of its workloads; "" for none.')
@click.option("--disable/--enable", default=None, help="A disabled user is signed out everywhere at once.")
@server_options
def edit(
    name: str,
    role: UserRole | None,
    full_name: str | None,
    email: str | None,
    default_workspace: str | None,
    disable: bool | None,
) -> None:
    """Change a user.

    \b
    stoker user edit li.wei --role admin
    stoker user edit li.wei --disable
    """
    if all(value is None for value in (role, full_name, email, default_workspace, disable)):
        raise click.UsageError("Say what to change, for example --role admin.")
    edited = connect().users.edit(
        name,
        role=value_or_unset(role),
        full_name=value_or_unset(full_name),
        email=value_or_unset(email),
        default_workspace=value_or_unset(default_workspace),
        disabled=value_or_unset(disable),
    )
    show_result(edited, COLUMNS, f"Changed user {edited.name}.")


@user_command.command("delete")
@click.argument("name")
@click.option("--stop/--keep", default=None, help="Stop the user's pending and running workloads, or not [asks].")
@yes_option
@server_options
def delete(name: str, stop: bool | None, yes: bool) -> None:
    """Remove a user with its keys, sessions and memberships.

    Pending and running workloads of the user are listed, and stopped if you confirm it; with --yes alone they continue.

    \b
    stoker user delete li.wei
    stoker user delete li.wei --stop --yes
    """
    question = f"Delete user {name} with its keys and memberships?"
    require_terminal(question, yes)
    client = connect()
    left = [
        each.workload_id for each in client.workloads.list(user_id=client.users.get(name).id, phase=UNFINISHED_PHASES)
    ]
    if left:
        click.echo(f"{name} still has {humanize_count(len(left), 'workload')}: {summarize_ids(left)}.", err=True)
    confirm(question, yes)
    if left and (_confirm_stop(yes) if stop is None else stop):
        _stop_workloads(client, left)
    elif left:
        click.echo(
            f"The workloads of {name} continue. To stop them: {command_line('stop', *left[:MAX_LISTED_IDS])}", err=True
        )
    client.users.delete(name)
    print_message(f"Deleted user {name}.")


def _confirm_stop(yes: bool) -> bool:
    """Ask whether to stop the workloads; --yes alone does not answer this question."""
    return not yes and click.confirm("Stop these workloads first?", err=True)


def _stop_workloads(client: "Stoker", ids: Sequence[str]) -> None:
    for first in range(0, len(ids), STOP_BATCH_SIZE):
        done = client.workloads.stop_many(ids[first : first + STOP_BATCH_SIZE])
        if done.failed:
            raise done.failed[0].error
    click.echo(f"Asked {humanize_count(len(ids), 'workload')} to stop.", err=True)


@user_command.command("passwd")
@click.argument("name", required=False)
@click.option("--password-stdin", is_flag=True, help="Read the new password from stdin; the current one is line 2.")
@server_options
def passwd(name: str | None, password_stdin: bool) -> None:
    """Set a password: your own or, as an admin, that of any user.

    \b
    stoker user passwd
    stoker user passwd li.wei
    """
    client = connect()
    me = client.me().user
    if password_stdin:
        new, current, *_ = [*read_password_lines(), ""]
    else:
        current = "" if me.role is UserRole.ADMIN else prompt_password("Current password")
        new = prompt_password("New password", twice=True)
    client.users.set_password(name or me.name, new, current_password=current)
    print_message(f"Set the password of {name or me.name}. Other log-ins of that user have ended.")
