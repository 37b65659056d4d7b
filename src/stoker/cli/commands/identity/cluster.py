"""`stoker cluster`."""

import copy
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from stoker.cli.core.click_group import CommandGroup
from stoker.cli.core.connection import connect
from stoker.cli.core.options import command_line, confirm, server_options, yes_option
from stoker.cli.input.docker_options import build_docker_settings, docker_options
from stoker.cli.input.unset import value_or_unset
from stoker.cli.render.findings import print_finding
from stoker.cli.render.output import Column, is_text, print_message, selected_output, show_list, show_one, show_result

if TYPE_CHECKING:
    from stoker.client import Stoker


def _format_reachable(row: Any) -> str:
    if row["unreachableSince"] is None:
        return "yes"
    return f"not since {row['unreachableSince']}"


COLUMNS = (
    Column("NAME", "name"),
    Column("ENGINE", "engine"),
    Column("REACHABLE", "reachable", row_formatter=_format_reachable),
    Column("NODES", "nodes"),
    Column("GPUS", "gpus"),
    Column("WHY NOT", "unreachableMessage"),
    Column("DESCRIPTION", "description"),
    Column("CREATED", "createdAt", wide=True),
    Column("ID", "id", wide=True),
)
COLUMN_PRIORITY = ("NAME", "ENGINE", "REACHABLE", "NODES", "GPUS", "WHY NOT", "DESCRIPTION")
DETAIL_COLUMNS = (
    *COLUMNS,
    Column("UPDATED", "updatedAt"),
    Column("CREDENTIAL", "hasCredential"),
    Column("ADDRESS", "docker.url"),
    Column("NODE NAME", "docker.nodeName"),
    Column("DECLARED GPUS", "docker.gpus"),
    Column("GPU MODEL", "docker.gpuModel"),
    Column("GPU VENDOR", "docker.gpuVendor"),
    Column("GPU MEMORY", "docker.gpuMemory"),
    Column("ALLOWED MOUNTS", "docker.allowedMounts"),
    Column("NETWORK", "docker.network"),
    Column("PULL POLICY", "docker.pullPolicy"),
    Column("REGISTRY AUTH FILE", "docker.registryAuthFile"),
    Column("DEFAULT IMAGE", "docker.defaultImage"),
    Column("SHM", "docker.shm"),
    Column("WORKING DIR", "docker.workingDir"),
    Column("FOREIGN STOP", "docker.foreignStop"),
)
CHECK_COLUMNS = (
    Column("CHECK", "name"),
    Column("VERDICT", "verdict"),
    Column("FOUND", "message"),
    Column("ADVICE", "advice"),
)


@click.group("cluster", cls=CommandGroup)
@server_options
def cluster_command() -> None:
    """Clusters, which run workloads."""


@cluster_command.command("add")
@click.argument("name")
@click.option("--docker", metavar="URL", help="A Docker host: unix:///PATH or tcp://HOST:PORT.")
@click.option("--description", default="", metavar="TEXT", help="What it is for.")
@docker_options
@server_options
def add(name: str, docker: str | None, description: str, **given: Any) -> None:
    """Add a cluster. It is used as soon as it can be reached.

    \b
    stoker cluster add lab --docker unix:///var/run/docker.sock --default-image ubuntu:24.04
    stoker cluster add rack1 --docker tcp://rack1:2376 --tls-dir ~/rack1 --gpus 8 --gpu-model "NVIDIA H100"
    """
    if docker is None:
        raise click.UsageError("Say what it is, for example --docker unix:///var/run/docker.sock.")
    client = connect()
    settings = build_docker_settings(given, docker)
    made = client.clusters.create(name, description=description, docker=settings)
    show_result(made, COLUMNS, f"Added cluster {made.name}.")
    if is_text():
        _print_check(client, made.name)
        following = command_line("workspace", "create", "NAME", "--cluster", made.name)
        print_message(f"Next: {following}")


@cluster_command.command("list")
@click.option("--name", default="", metavar="TEXT", help="Part of the name.")
@server_options
def list_clusters(name: str) -> None:
    """List clusters, and since when those are down that cannot be reached.

    \b
    stoker cluster list
    """
    show_list(connect().clusters.list(name=name), COLUMNS, importance=COLUMN_PRIORITY)


@cluster_command.command("describe")
@click.argument("name")
@server_options
def describe(name: str) -> None:
    """Show one cluster, by name or id. Its settings are shown to admins, credentials to nobody.

    \b
    stoker cluster describe local
    """
    found = connect().clusters.get(name)
    columns = DETAIL_COLUMNS if found.docker else [each for each in DETAIL_COLUMNS if "." not in each.path]
    show_one(found, columns)


show = copy.copy(describe)
"""The name that this command has for users, workspaces and departments."""
show.name, show.hidden = "show", True
cluster_command.add_command(show)


@cluster_command.command("edit")
@click.argument("name")
@click.option("--docker", metavar="URL", help="Its new address; the machine must be the same if workloads run there.")
@click.option("--description", metavar="TEXT", help="What it is for.")
@click.option("--no-tls", is_flag=True, help="Remove the stored certificates.")
@docker_options
@server_options
def edit(name: str, docker: str | None, description: str | None, no_tls: bool, **given: Any) -> None:
    """Change a cluster. Settings are in force at once; what runs there keeps running.

    \b
    stoker cluster edit lab --gpus 8 --gpu-model "NVIDIA H100"
    stoker cluster edit rack1 --tls-dir ~/rack1
    """
    settings = build_docker_settings(given, docker, no_tls=no_tls)
    is_changed = any(getattr(settings, field) is not UNSET for field in settings.__struct_fields__)
    if description is None and not is_changed:
        raise click.UsageError("Say what to change, for example --default-image ubuntu:24.04.")
    edited = connect().clusters.edit(
        name, description=value_or_unset(description), docker=settings if is_changed else UNSET
    )
    show_result(edited, COLUMNS, f"Changed cluster {edited.name}.")


@cluster_command.command("remove")
@click.argument("name")
@click.option("--release", is_flag=True, help="Leave its workloads running; forget them and their workspaces.")
@yes_option
@server_options
def remove(name: str, release: bool, yes: bool) -> None:
    """Remove a cluster with its history: workloads that have ended, samples and usage.

    A cluster with workloads that have not ended, or with workspaces, is refused unless it is released.

    \b
    stoker cluster remove lab
    """
    what = " Its workloads keep running, and Stoker forgets them and their workspaces." if release else ""
    confirm(f"Remove cluster {name} with its history and usage?{what}", yes)
    connect().clusters.remove(name, release=release)
    print_message(f"Removed cluster {name}.")


@cluster_command.command("check")
@click.argument("name")
@server_options
@click.pass_context
def check(ctx: click.Context, name: str) -> None:
    """Find out what is wrong with a cluster, and what to do about it; 0 only when nothing is broken.

    \b
    stoker cluster check lab
    """
    client = connect()
    if is_text():
        ctx.exit(0 if _print_check(client, name) else 1)
    found = client.clusters.check(name)
    if selected_output() == "csv":
        show_list(found.checks, CHECK_COLUMNS)
    else:
        show_one(found, CHECK_COLUMNS)
    ctx.exit(0 if found.ok else 1)


def _print_check(client: "Stoker", name: str) -> bool:
    found = client.clusters.check(name)
    for each in found.checks:
        print_finding(each.verdict, each.name, each.message, each.advice)
    return found.ok
