"""`stoker list` and `stoker ps`."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import EnumChoice, server_options
from stoker.cli.input.time_params import InstantParam
from stoker.cli.render.format import format_total_gpus
from stoker.cli.render.output import Column, is_text, show_list, truncation_note
from stoker.domain.workload.spec import Kind

if TYPE_CHECKING:
    from stoker.wire.management import WorkloadSummaryView
    from stoker.wire.pages import CountedPage

PHASES = ("Pending", "Running", "Updating", "Succeeded", "Failed", "Stopped")
SORTS = ("create_time", "start_time", "end_time", "priority", "display_name", "phase", "runtime", "gpu")
MAX_PAGE_SIZE = 1000
COLUMNS = (
    Column("ID", "workloadId"),
    Column("PHASE", "phase"),
    Column("KIND", "groupVersionKind.kind"),
    Column("WORKSPACE", "workspaceId"),
    Column("USER", "userName"),
    Column("GPU", "resource.gpu", row_formatter=format_total_gpus),
    Column("REPLICAS", "resource.replica"),
    Column("RUNTIME", "runtime"),
    Column("MESSAGE", "message"),
    Column("NAME", "displayName", wide=True),
    Column("CLUSTER", "clusterId", wide=True),
    Column("CPU", "resource.cpu", wide=True),
    Column("MEMORY", "resource.memory", wide=True),
    Column("PRIORITY", "priority", wide=True),
    Column("PLACE", "schedulerOrder", wide=True, formatter=lambda place: str(place or "-")),
    Column("ATTEMPT", "dispatchCount", wide=True),
    Column("CREATED", "creationTime", wide=True),
    Column("STARTED", "startTime", wide=True),
    Column("ENDED", "endTime", wide=True),
    Column("DESCRIPTION", "description", wide=True),
)
COLUMN_PRIORITY = ("ID", "PHASE", "GPU", "RUNTIME", "MESSAGE", "USER", "WORKSPACE", "KIND", "REPLICAS")
"""The columns in order of importance: a narrow terminal omits the last ones first."""


@click.command("list")
@click.argument("name", required=False, metavar="[TEXT]")
@click.option("--phase", type=click.Choice(PHASES, case_sensitive=False), multiple=True, help="Can be repeated.")
@click.option("--kind", type=EnumChoice(Kind), multiple=True, help="Can be repeated.")
@click.option("--workspace", "-w", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--cluster", default="", metavar="NAME", help="Only on this cluster.")
@click.option("--user", default="", metavar="TEXT", help="Part of the owner's name.")
@click.option("--description", default="", metavar="TEXT", help="Part of the description.")
@click.option("--since", type=InstantParam(ago=True), metavar="TIME", help="Submitted since, such as 1h or 7d.")
@click.option("--until", type=InstantParam(ago=True), metavar="TIME", help="Submitted until, such as 1h or 7d.")
@click.option("--sort", type=click.Choice(SORTS), default="create_time", help="[default create_time]")
@click.option("--ascending", is_flag=True, help="Lowest or oldest first.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Maximum number; 0 for all.")
@click.option("--watch", is_flag=True, help="Refresh the list when a workload changes.")
@server_options
def list_command(
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
    from stoker.wire.pages import CountedPage

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

    def look() -> "CountedPage[WorkloadSummaryView]":
        if 0 < limit <= MAX_PAGE_SIZE:
            return client.workloads.page(limit=limit, **asked)
        items = tuple(client.workloads.list(**asked))
        return CountedPage(len(items), items[:limit] if limit else items)

    if watch:
        _watch_page(look)
    else:
        _show_page(look())


def _show_page(page: "CountedPage[WorkloadSummaryView]") -> None:
    show_list(page.items, COLUMNS, {"totalCount": page.total_count}, COLUMN_PRIORITY)
    if is_text() and (note := truncation_note(len(page.items), page.total_count)):
        click.echo(note, err=True)


def _watch_page(look: "Callable[[], CountedPage[WorkloadSummaryView]]") -> None:
    from stoker.cli.render.watch import watch_list

    watch_list(connect(), look, COLUMNS, COLUMN_PRIORITY)
