"""The verbs of `stoker workspace` that are about its members."""

import click

from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, say, show_done, show_list
from stoker.cli.session import connect
from stoker.domain.identity import MemberRole

COLUMNS = (Column("USER", "user"), Column("ROLE", "role"), Column("SINCE", "since"))


@click.command("members")
@click.argument("workspace")
@click.option("--role", type=OneOf(MemberRole), help="Only this role.")
@reaches_server
def list_members(workspace: str, role: MemberRole | None) -> None:
    """List who belongs to a workspace.

    \b
    stoker workspace members vision
    """
    show_list(connect().members.list(workspace, role=role), COLUMNS)


@click.command("add-member")
@click.argument("workspace")
@click.argument("user")
@click.option("--role", type=OneOf(MemberRole), default=MemberRole.MEMBER.value, help="[default member]")
@reaches_server
def add_member(workspace: str, user: str, role: MemberRole) -> None:
    """Add a user to a workspace, or change its role there.

    \b
    stoker workspace add-member vision li.wei --role manager
    """
    member = connect().members.set(workspace, user, role=role)
    show_done(member, COLUMNS, f"{member.user} is now {member.role} of workspace {workspace}.")


@click.command("remove-member")
@click.argument("workspace")
@click.argument("user")
@yes_option
@reaches_server
def remove_member(workspace: str, user: str, yes: bool) -> None:
    """Take a user out of a workspace.

    \b
    stoker workspace remove-member vision li.wei
    """
    confirm(f"Take {user} out of workspace {workspace}?", yes)
    connect().members.remove(workspace, user)
    say(f"{user} is no longer a member of workspace {workspace}.")
