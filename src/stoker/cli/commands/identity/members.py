"""The commands of `stoker workspace` for its members."""

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, confirm, server_options, yes_option
from stoker.cli.render.output import Column, print_message, show_list, show_result
from stoker.domain.access.identity import MemberRole

COLUMNS = (Column("USER", "user"), Column("ROLE", "role"), Column("SINCE", "since"))


@click.command("members")
@click.argument("workspace")
@click.option("--role", type=EnumChoice(MemberRole), help="Only this role.")
@server_options
def list_members(workspace: str, role: MemberRole | None) -> None:
    """List the members of a workspace.

    \b
    stoker workspace members vision
    """
    show_list(connect().members.list(workspace, role=role), COLUMNS)


@click.command("add-member")
@click.argument("workspace")
@click.argument("user")
@click.option("--role", type=EnumChoice(MemberRole), default=MemberRole.MEMBER.value, help="[default member]")
@server_options
def add_member(workspace: str, user: str, role: MemberRole) -> None:
    """Add a user to a workspace, or change its role there.

    \b
    stoker workspace add-member vision li.wei --role manager
    """
    member = connect().members.set(workspace, user, role=role)
    show_result(member, COLUMNS, f"{member.user} is now {member.role} of workspace {workspace}.")


@click.command("remove-member")
@click.argument("workspace")
@click.argument("user")
@yes_option
@server_options
def remove_member(workspace: str, user: str, yes: bool) -> None:
    """Remove a user from a workspace.

    \b
    stoker workspace remove-member vision li.wei
    """
    confirm(f"Take {user} out of workspace {workspace}?", yes)
    connect().members.remove(workspace, user)
    print_message(f"{user} is no longer a member of workspace {workspace}.")
