"""`stoker user`."""

import click

from stoker.cli.edits import given
from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, say, show_done, show_list, show_one
from stoker.cli.passwords import ask, from_stdin
from stoker.cli.session import connect
from stoker.domain.identity import UserKind, UserRole

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


@click.group("user", cls=Verbs)
@reaches_server
def command() -> None:
    """Users: who may sign in, and what they are to the whole installation."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name, full name or e-mail address.")
@click.option("--role", type=OneOf(UserRole), help="Only this role.")
@click.option("--kind", type=OneOf(UserKind), help="Only people, or only applications.")
@click.option("--disabled/--enabled", default=None, help="Only those that are disabled, or only the others.")
@reaches_server
def list_users(name: str, role: UserRole | None, kind: UserKind | None, disabled: bool | None) -> None:
    """List users and applications.

    \b
    stoker user list -o wide
    """
    show_list(connect().users.list(name=name, role=role, kind=kind, disabled=disabled), COLUMNS)


@command.command("create")
@click.argument("name")
@click.option("--role", type=OneOf(UserRole), default=UserRole.USER.value, help="[default user]")
@click.option("--full-name", default="", metavar="TEXT", help="Name as people write it.")
@click.option("--email", default="", metavar="ADDRESS", help="E-mail address.")
@click.option("--default-workspace", default="", metavar="NAME", help="Where its workloads go.")
@click.option("--ask-password", is_flag=True, help="Ask for a password.")
@click.option("--password-stdin", is_flag=True, help="Read a password from stdin.")
@reaches_server
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
    password = from_stdin()[0] if password_stdin else ask("Password", twice=True) if ask_password else ""
    made = connect().users.create(
        name,
        password=password,
        role=role,
        full_name=full_name,
        email=email,
        default_workspace=default_workspace,
    )
    show_done(made, COLUMNS, f"Created user {made.name}.")


@command.command("show")
@click.argument("name")
@reaches_server
def show(name: str) -> None:
    """Show one user.

    \b
    stoker user show li.wei
    """
    show_one(connect().users.get(name), COLUMNS)


@command.command("edit")
@click.argument("name")
@click.option("--role", type=OneOf(UserRole), help="What it is to the whole installation.")
@click.option("--full-name", metavar="TEXT", help="Name as people write it.")
@click.option("--email", metavar="ADDRESS", help="E-mail address.")
@click.option("--default-workspace", metavar="NAME", help='Where its workloads go; "" for none.')
@click.option("--disable/--enable", default=None, help="A disabled user is signed out everywhere at once.")
@reaches_server
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
        role=given(role),
        full_name=given(full_name),
        email=given(email),
        default_workspace=given(default_workspace),
        disabled=given(disable),
    )
    show_done(edited, COLUMNS, f"Changed user {edited.name}.")


@command.command("delete")
@click.argument("name")
@yes_option
@reaches_server
def delete(name: str, yes: bool) -> None:
    """Remove a user with its keys, sessions and memberships.

    \b
    stoker user delete li.wei
    """
    confirm(f"Delete user {name} with its keys and memberships?", yes)
    connect().users.delete(name)
    say(f"Deleted user {name}.")


@command.command("passwd")
@click.argument("name", required=False)
@click.option("--password-stdin", is_flag=True, help="Read the new password from stdin; the current one is line 2.")
@reaches_server
def passwd(name: str | None, password_stdin: bool) -> None:
    """Set a password: your own, or as an admin anyone's.

    \b
    stoker user passwd
    stoker user passwd li.wei
    """
    client = connect()
    me = client.me().user
    if password_stdin:
        new, current, *_ = [*from_stdin(), ""]
    else:
        current = "" if me.role is UserRole.ADMIN else ask("Current password")
        new = ask("New password", twice=True)
    client.users.set_password(name or me.name, new, current_password=current)
    say(f"Set the password of {name or me.name}. Other log-ins of that user have ended.")
