"""`stoker workspace`."""

import click

from stoker.cli.edits import given, limit
from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, say, show_done, show_list, show_one
from stoker.cli.session import connect
from stoker.cli.verbs.members import add_member, list_members, remove_member
from stoker.domain.identity import QueuePolicy

COLUMNS = (
    Column("NAME", "name"),
    Column("DEPARTMENT", "department"),
    Column("CLUSTER", "cluster"),
    Column("GPU", "quota.gpu"),
    Column("CPU", "quota.cpu"),
    Column("MEMORY", "quota.memory"),
    Column("QUEUE", "queuePolicy"),
    Column("PREEMPTION", "preemption"),
    Column("NAMESPACE", "namespace", wide=True),
    Column("DESCRIPTION", "description", wide=True),
    Column("CREATED", "createdAt", wide=True),
    Column("UPDATED", "updatedAt", wide=True),
    Column("ID", "id", wide=True),
)


@click.group("workspace", cls=Verbs)
@reaches_server
def command() -> None:
    """Workspaces: a team's quota, queue and members."""


@command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@click.option("--department", default="", metavar="NAME", help="Only of this department.")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@reaches_server
def list_workspaces(name: str, department: str, cluster: str) -> None:
    """List the workspaces you can see.

    \b
    stoker workspace list
    """
    show_list(connect().workspaces.list(name=name, department=department, cluster=cluster), COLUMNS)


@command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@click.option("--department", metavar="NAME", help="Its department [default default].")
@click.option("--cluster", default="", metavar="NAME", help="Where its workloads run [default the server's].")
@click.option("--namespace", default="", metavar="NAME", help="Kubernetes namespace [default the name].")
@click.option("--gpu", metavar="QUANTITY", help='Quota such as "8"; no limit when left out.')
@click.option("--cpu", metavar="QUANTITY", help='Quota such as "64" or "500m".')
@click.option("--memory", metavar="QUANTITY", help='Quota such as "2Ti".')
@click.option("--queue-policy", type=OneOf(QueuePolicy), help="fifo: the head blocks; balance: skip what cannot fit.")
@click.option("--preemption/--no-preemption", default=None, help="Whether lower priorities may be preempted.")
@reaches_server
def create(
    name: str,
    description: str,
    department: str | None,
    cluster: str,
    namespace: str,
    gpu: str | None,
    cpu: str | None,
    memory: str | None,
    queue_policy: QueuePolicy | None,
    preemption: bool | None,
) -> None:
    """Add a workspace.

    \b
    stoker workspace create vision --gpu 16 --memory 2Ti --queue-policy balance
    """
    from stoker.client.shapes import Quota

    made = connect().workspaces.create(
        name,
        description=description,
        department=given(department),
        cluster=cluster,
        namespace=namespace,
        quota=Quota(gpu=gpu, cpu=cpu, memory=memory),
        queue_policy=given(queue_policy),
        preemption=given(preemption),
    )
    show_done(made, COLUMNS, f"Created workspace {made.name}.")


@command.command("show")
@click.argument("name")
@reaches_server
def show(name: str) -> None:
    """Show one workspace.

    \b
    stoker workspace show vision
    """
    show_one(connect().workspaces.get(name), COLUMNS)


@command.command("edit")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--department", metavar="NAME", help="Move it to this department.")
@click.option("--gpu", metavar="QUANTITY", help='Quota such as "8"; "none" for no limit.')
@click.option("--cpu", metavar="QUANTITY", help='Quota such as "64"; "none" for no limit.')
@click.option("--memory", metavar="QUANTITY", help='Quota such as "2Ti"; "none" for no limit.')
@click.option("--queue-policy", type=OneOf(QueuePolicy), help="fifo: the head blocks; balance: skip what cannot fit.")
@click.option("--preemption/--no-preemption", default=None, help="Whether lower priorities may be preempted.")
@reaches_server
def edit(
    name: str,
    description: str | None,
    department: str | None,
    gpu: str | None,
    cpu: str | None,
    memory: str | None,
    queue_policy: QueuePolicy | None,
    preemption: bool | None,
) -> None:
    """Change a workspace.

    \b
    stoker workspace edit vision --gpu 32 --memory none
    """
    if all(value is None for value in (description, department, gpu, cpu, memory, queue_policy, preemption)):
        raise click.UsageError("Say what to change, for example --gpu 16.")
    from stoker.client.shapes import QuotaEdit

    edited = connect().workspaces.edit(
        name,
        description=given(description),
        department=given(department),
        quota=QuotaEdit(gpu=limit(gpu), cpu=limit(cpu), memory=limit(memory)),
        queue_policy=given(queue_policy),
        preemption=given(preemption),
    )
    show_done(edited, COLUMNS, f"Changed workspace {edited.name}.")


@command.command("delete")
@click.argument("name")
@yes_option
@reaches_server
def delete(name: str, yes: bool) -> None:
    """Remove a workspace and its memberships.

    \b
    stoker workspace delete vision
    """
    confirm(f"Delete workspace {name} and its memberships?", yes)
    connect().workspaces.delete(name)
    say(f"Deleted workspace {name}.")


command.add_command(list_members)
command.add_command(add_member)
command.add_command(remove_member)
