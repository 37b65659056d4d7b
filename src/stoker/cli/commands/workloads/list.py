"""`stoker list` and `stoker ps`."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.options import OneOf, reaches_server
from stoker.cli.output import Column, is_text, left_out, show_list
from stoker.cli.session import connect
from stoker.cli.when import Moment
from stoker.domain.workload import Kind

if TYPE_CHECKING:
    from stoker.client.shapes import CountedPage
    from stoker.client.workload_shapes import Workload

PHASES = ("Pending", "Running", "Updating", "Succeeded", "Failed", "Stopped")
SORTS = ("create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu")
MOST = 1000
COLUMNS = (
    Column("ID", "workloadId"),
    Column("PHASE", "phase"),
    Column("KIND", "groupVersionKind.kind"),
    Column("WORKSPACE", "workspaceId"),
    Column("USER", "userName"),
    Column("GPU", "resource.gpu"),
    Column("REPLICAS", "resource.replica"),
    Column("RUNTIME", "runtime"),
    Column("MESSAGE", "message"),
    Column("NAME", "displayName", wide=True),
    Column("CLUSTER", "clusterId", wide=True),
    Column("CPU", "resource.cpu", wide=True),
    Column("MEMORY", "resource.memory", wide=True),
    Column("PRIORITY", "priority", wide=True),
    Column("PLACE", "schedulerOrder", wide=True, show=lambda place: str(place or "-")),
    Column("ATTEMPT", "dispatchCount", wide=True),
    Column("CREATED", "creationTime", wide=True),
    Column("STARTED", "startTime", wide=True),
    Column("ENDED", "endTime", wide=True),
    Column("DESCRIPTION", "description", wide=True),
)


@click.command("list")
@click.argument("name", required=False, metavar="[TEXT]")
@click.option("--phase", type=click.Choice(PHASES, case_sensitive=False), multiple=True, help="Can be repeated.")
@click.option("--kind", type=OneOf(Kind), multiple=True, help="Can be repeated.")
@click.option("--workspace", "-w", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--cluster", default="", metavar="NAME", help="Only on this cluster.")
@click.option("--user", default="", metavar="TEXT", help="Part of the owner's name.")
@click.option("--description", default="", metavar="TEXT", help="Part of the description.")
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="Submitted since, such as 1h or 7d.")
@click.option("--until", type=Moment(ago=True), metavar="TIME", help="Submitted until, such as 1h or 7d.")
@click.option("--sort", type=click.Choice(SORTS), default="create_time", help="[default create_time]")
@click.option("--ascending", is_flag=True, help="Lowest or oldest first.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="At the most; 0 for all.")
@click.option("--watch", is_flag=True, help="Show it again whenever something changes.")
@reaches_server
def command(
    name: str | None,
    phase: tuple[str, ...],
    kind: tuple[Kind, ...],
    workspace: str,
    cluster: str,
    user: str,
    description: str,
    since: datetime | None,
    until: datetime | None,
    sort: str,
    ascending: bool,
    limit: int,
    watch: bool,
) -> None:
    """List the workloads of your workspaces, newest first; TEXT is a part of the id.

    \b
    stoker list
    stoker list --phase Running --phase Pending -w vision
    stoker list --since 1d --sort gpu --watch
    """
    from stoker.client.shapes import CountedPage

    client = connect()
    asked = {
        "workload_id": name or "",
        "phase": phase,
        "kind": tuple(map(str, kind)),
        "workspace_id": workspace,
        "cluster_id": cluster,
        "user_name": user,
        "description": description,
        "since": since,
        "until": until,
        "sort_by": sort,
        "order": "asc" if ascending else "desc",
    }

    def look() -> "CountedPage[Workload]":
        if 0 < limit <= MOST:
            return client.workloads.page(limit=limit, **asked)
        items = tuple(client.workloads.list(**asked))
        return CountedPage(len(items), items[:limit] if limit else items)

    if watch:
        _watch(look)
    else:
        _show(look())


def _show(page: "CountedPage[Workload]") -> None:
    show_list(page.items, COLUMNS, {"totalCount": page.total_count})
    if is_text() and (note := left_out(len(page.items), page.total_count)):
        click.echo(note, err=True)


def _watch(look: "Callable[[], CountedPage[Workload]]") -> None:
    from stoker.cli.watch import watch

    watch(connect(), look, COLUMNS)
