"""`stoker workspace`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import UnsetType

from stoker.cli.edits import given, limit
from stoker.cli.groups import Verbs
from stoker.cli.options import OneOf, confirm, reaches_server, yes_option
from stoker.cli.output import Column, say, show_done, show_list, show_one
from stoker.cli.session import connect
from stoker.cli.verbs.members import add_member, list_members, remove_member
from stoker.cli.when import Duration
from stoker.domain.identity import QueuePolicy
from stoker.domain.idleness import IdleAction

if TYPE_CHECKING:
    from stoker.client.shapes import IdlePolicy

C = TypeVar("C", bound=Callable[..., Any])

COLUMNS = (
    Column("NAME", "name"),
    Column("DEPARTMENT", "department"),
    Column("CLUSTER", "cluster"),
    Column("GPU", "quota.gpu"),
    Column("CPU", "quota.cpu"),
    Column("MEMORY", "quota.memory"),
    Column("QUEUE", "queuePolicy"),
    Column("PREEMPTION", "preemption"),
    Column("GUARANTEED S", "guaranteedSeconds", wide=True),
    Column("WHEN IDLE", "idlePolicy.action"),
    Column("IDLE UP TO %", "idlePolicy.threshold", wide=True),
    Column("IDLE WINDOW S", "idlePolicy.windowSeconds", wide=True),
    Column("IDLE GRACE S", "idlePolicy.graceSeconds", wide=True),
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


guarantee_option = click.option(
    "--guaranteed-runtime",
    type=Duration(most="30d"),
    help="How long preemptible workloads keep their place, such as 30m; 0 for no guarantee.",
)


def idle_options(verb: C) -> C:
    """What is done about workloads whose GPUs nobody uses."""
    for option in (
        click.option("--idle-grace", type=Duration(), help="How long after the warning, such as 15m."),
        click.option("--idle-window", type=Duration(), help="How long all GPUs must be idle, such as 30m."),
        click.option(
            "--idle-threshold", metavar="PERCENT", help='Used no more than this is idle; "none" for the server\'s.'
        ),
        click.option("--idle-action", type=OneOf(IdleAction), help="What is done about workloads with idle GPUs."),
    ):
        verb = option(verb)
    return verb


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
@guarantee_option
@idle_options
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
    guaranteed_runtime: int | None,
    idle_action: IdleAction | None,
    idle_threshold: str | None,
    idle_window: int | None,
    idle_grace: int | None,
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
        guaranteed_seconds=given(guaranteed_runtime),
        idle_policy=_idle_policy(idle_action, idle_threshold, idle_window, idle_grace),
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
@guarantee_option
@idle_options
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
    guaranteed_runtime: int | None,
    idle_action: IdleAction | None,
    idle_threshold: str | None,
    idle_window: int | None,
    idle_grace: int | None,
) -> None:
    """Change a workspace.

    \b
    stoker workspace edit vision --gpu 32 --memory none
    stoker workspace edit vision --guaranteed-runtime 30m
    stoker workspace edit vision --idle-action stop --idle-window 30m --idle-grace 15m
    """
    idle = (idle_action, idle_threshold, idle_window, idle_grace)
    others = (queue_policy, preemption, guaranteed_runtime, *idle)
    if all(value is None for value in (description, department, gpu, cpu, memory, *others)):
        raise click.UsageError("Say what to change, for example --gpu 16.")
    from stoker.client.shapes import QuotaEdit

    edited = connect().workspaces.edit(
        name,
        description=given(description),
        department=given(department),
        quota=QuotaEdit(gpu=limit(gpu), cpu=limit(cpu), memory=limit(memory)),
        queue_policy=given(queue_policy),
        preemption=given(preemption),
        guaranteed_seconds=given(guaranteed_runtime),
        idle_policy=_idle_policy(*idle),
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


def _idle_policy(
    action: IdleAction | None, threshold: str | None, window: int | None, grace: int | None
) -> "IdlePolicy":
    from stoker.client.shapes import IdlePolicy

    return IdlePolicy(
        action=given(action),
        threshold=_percent(threshold),
        window_seconds=given(window),
        grace_seconds=given(grace),
    )


def _percent(text: str | None) -> float | UnsetType | None:
    word = limit(text)
    if not isinstance(word, str):
        return word
    try:
        return float(word.removesuffix("%"))
    except ValueError:
        raise click.UsageError(f'--idle-threshold: "{word}" is not a number. Use for example 1 or 2.5.') from None


command.add_command(list_members)
command.add_command(add_member)
command.add_command(remove_member)
