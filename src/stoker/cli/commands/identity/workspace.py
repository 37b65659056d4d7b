"""`stoker workspace`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import UnsetType

from stoker.cli.commands.identity.members import add_member, list_members, remove_member
from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, confirm, server_options, yes_option
from stoker.cli.input.time_params import DurationParam
from stoker.cli.input.unset import quota_or_unset, value_or_unset
from stoker.cli.render.output import Column, print_message, show_list, show_one, show_result
from stoker.domain.access.identity import QueuePolicy
from stoker.domain.workload.idle import IdleAction

if TYPE_CHECKING:
    from stoker.wire.identity import EditIdlePolicy

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


@click.group("workspace", cls=CommandGroup)
@server_options
def workspace_command() -> None:
    """Workspaces: the quota, the queue and the members of a team."""


@workspace_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@click.option("--department", default="", metavar="NAME", help="Only of this department.")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@server_options
def list_workspaces(name: str, department: str, cluster: str) -> None:
    """List the workspaces you can see.

    \b
    stoker workspace list
    """
    show_list(connect().workspaces.list(name=name, department=department, cluster=cluster), COLUMNS)


guarantee_option = click.option(
    "--guaranteed-runtime",
    type=DurationParam(most="30d"),
    help="Guaranteed runtime of preemptible workloads, such as 30m; 0 for none.",
)


def idle_options(verb: C) -> C:
    """The options of the idle policy."""
    for option in (
        click.option("--idle-grace", type=DurationParam(), help="Grace period after the warning, such as 15m."),
        click.option(
            "--idle-window", type=DurationParam(), help="Idle time of all GPUs before the warning, such as 30m."
        ),
        click.option(
            "--idle-threshold", metavar="PERCENT", help='Used no more than this is idle; "none" for the server\'s.'
        ),
        click.option("--idle-action", type=EnumChoice(IdleAction), help="Action on workloads with idle GPUs."),
    ):
        verb = option(verb)
    return verb


@workspace_command.command("create")
@click.argument("name")
@click.option("--description", default="", metavar="TEXT", help="Description.")
@click.option("--department", metavar="NAME", help="Its department [default default].")
@click.option("--cluster", default="", metavar="NAME", help="Cluster that runs its workloads [default the server's].")
@click.option("--namespace", default="", metavar="NAME", help="Kubernetes namespace [default the name].")
@click.option("--gpu", metavar="QUANTITY", help='Quota such as "8"; no limit when left out.')
@click.option("--cpu", metavar="QUANTITY", help='Quota such as "64" or "500m".')
@click.option("--memory", metavar="QUANTITY", help='Quota such as "2Ti".')
@click.option(
    "--queue-policy",
    type=EnumChoice(QueuePolicy),
    help="fifo: the head blocks the queue; balance: workloads that do not fit are skipped.",
)
@click.option("--preemption/--no-preemption", default=None, help="Whether lower priorities may be preempted.")
@guarantee_option
@idle_options
@server_options
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
    from stoker.wire.identity import QuotaBody

    made = connect().workspaces.create(
        name,
        description=description,
        department=value_or_unset(department),
        cluster=cluster,
        namespace=namespace,
        quota=QuotaBody(gpu=gpu, cpu=cpu, memory=memory),
        queue_policy=value_or_unset(queue_policy),
        preemption=value_or_unset(preemption),
        guaranteed_seconds=value_or_unset(guaranteed_runtime),
        idle_policy=_idle_policy(idle_action, idle_threshold, idle_window, idle_grace),
    )
    show_result(made, COLUMNS, f"Created workspace {made.name}.")


@workspace_command.command("show")
@click.argument("name")
@server_options
def show(name: str) -> None:
    """Show one workspace.

    \b
    stoker workspace show vision
    """
    show_one(connect().workspaces.get(name), COLUMNS)


@workspace_command.command("edit")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="Description.")
@click.option("--department", metavar="NAME", help="Move it to this department.")
@click.option("--gpu", metavar="QUANTITY", help='Quota such as "8"; "none" for no limit.')
@click.option("--cpu", metavar="QUANTITY", help='Quota such as "64"; "none" for no limit.')
@click.option("--memory", metavar="QUANTITY", help='Quota such as "2Ti"; "none" for no limit.')
@click.option(
    "--queue-policy",
    type=EnumChoice(QueuePolicy),
    help="fifo: the head blocks the queue; balance: workloads that do not fit are skipped.",
)
@click.option("--preemption/--no-preemption", default=None, help="Whether lower priorities may be preempted.")
@guarantee_option
@idle_options
@server_options
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
    from stoker.wire.identity import EditQuota

    edited = connect().workspaces.edit(
        name,
        description=value_or_unset(description),
        department=value_or_unset(department),
        quota=EditQuota(gpu=quota_or_unset(gpu), cpu=quota_or_unset(cpu), memory=quota_or_unset(memory)),
        queue_policy=value_or_unset(queue_policy),
        preemption=value_or_unset(preemption),
        guaranteed_seconds=value_or_unset(guaranteed_runtime),
        idle_policy=_idle_policy(*idle),
    )
    show_result(edited, COLUMNS, f"Changed workspace {edited.name}.")


@workspace_command.command("delete")
@click.argument("name")
@yes_option
@server_options
def delete(name: str, yes: bool) -> None:
    """Remove a workspace and its memberships.

    \b
    stoker workspace delete vision
    """
    confirm(f"Delete workspace {name} and its memberships?", yes)
    connect().workspaces.delete(name)
    print_message(f"Deleted workspace {name}.")


def _idle_policy(
    action: IdleAction | None, threshold: str | None, window: int | None, grace: int | None
) -> "EditIdlePolicy":
    from stoker.wire.identity import EditIdlePolicy

    return EditIdlePolicy(
        action=value_or_unset(action),
        threshold=_parse_percent(threshold),
        window_seconds=value_or_unset(window),
        grace_seconds=value_or_unset(grace),
    )


def _parse_percent(text: str | None) -> float | UnsetType | None:
    word = quota_or_unset(text)
    if not isinstance(word, str):
        return word
    try:
        return float(word.removesuffix("%"))
    except ValueError:
        raise click.UsageError(f'--idle-threshold: "{word}" is not a number. Use for example 1 or 2.5.') from None


workspace_command.add_command(list_members)
workspace_command.add_command(add_member)
workspace_command.add_command(remove_member)
