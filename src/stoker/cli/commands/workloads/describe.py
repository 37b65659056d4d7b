"""`stoker describe`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec import structs

from stoker.cli.core.connection import connect
from stoker.cli.core.options import command_line, server_options
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.format import format_quantity, format_replica_gpus
from stoker.cli.render.output import Column, is_text, show_one, show_table
from stoker.cli.render.sanitize import sanitize_line
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import IMAGE_NOT_USED
from stoker.domain.workload.spec import NO_IMAGE

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.management import WorkloadDetailView

COLUMNS = (
    Column("Id", "workloadId"),
    Column("Name", "displayName"),
    Column("Description", "description"),
    Column("Phase", "phase"),
    Column("Message", "message"),
    Column("Place in queue", "schedulerOrder", formatter=lambda place: str(place or "-")),
    Column("Kind", "groupVersionKind.kind"),
    Column("Workspace", "workspaceId"),
    Column("Cluster", "clusterId"),
    Column("User", "userName"),
    Column("Priority", "priority"),
    Column("Preemptible", "preemptible"),
    Column("Guaranteed until", "guaranteedUntil"),
    Column("Replicas", "resource.replica"),
    Column("GPU", "resource.gpu", row_formatter=format_replica_gpus),
    Column("CPU", "resource.cpu", formatter=format_quantity),
    Column("Memory", "resource.memory"),
    Column("Image", "image"),
    Column("Submitted", "creationTime"),
    Column("Started", "startTime"),
    Column("Ended", "endTime"),
    Column("Runtime", "runtime"),
    Column("Timeout", "timeout", formatter=lambda seconds: f"{seconds} s" if seconds else "-"),
    Column("Attempts", "dispatchCount"),
    Column("Retries at most", "maxRetry"),
    Column("Depends on", "dependencies"),
)


@click.command("describe")
@click.argument("workload", required=False)
@server_options
def describe_command(workload: str | None) -> None:
    """Show a workload, by id or name: its request, its conditions and its pods.

    \b
    stoker describe train-b2c4d
    """
    client = connect()
    detail = resolve_workload(client, workload, or_newest=True)
    if is_text() and any(each.reason == IMAGE_NOT_USED for each in detail.conditions):
        detail = structs.replace(detail, image=NO_IMAGE)
    show_one(detail, COLUMNS)
    if is_text():
        _show_service(client, detail.workload_id)
        _show_sections(detail)


def _show_service(client: "Stoker", workload_id: str) -> None:
    try:
        service = client.workloads.service(workload_id)
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            click.echo(f"\nService\n  {sanitize_line(error.message)}")
        return
    click.echo("\nService")
    host = service.cluster_ip
    for port in service.ports:
        address = f"{f'[{host}]' if ':' in host else host}:{port.port}" if host else "no address yet"
        click.echo(f"  {sanitize_line(f'{address} ({port.protocol}), to port {port.target_port} of the replicas')}")


def _show_sections(detail: "WorkloadDetailView") -> None:
    if detail.entry_point:
        click.echo("\nScript")
        for line in detail.entry_point.splitlines():
            click.echo(f"  {sanitize_line(line.expandtabs())}")
    for title, pairs in (("Environment", detail.env), ("Labels", detail.customer_labels)):
        if pairs:
            click.echo(f"\n{title}")
            for name, value in pairs.items():
                click.echo(f"  {sanitize_line(f'{name}={value}')}")
    if detail.conditions:
        click.echo("\nConditions")
        rows = [(each.last_transition_time, each.type, each.reason, each.message) for each in detail.conditions]
        _show_sanitized_table(("AT", "TYPE", "REASON", "MESSAGE"), rows, folded="MESSAGE")
    if detail.pods:
        click.echo("\nPods")
        _show_sanitized_table(("POD", "PHASE", "NODE"), [(pod.pod_id, pod.phase, pod.node_name) for pod in detail.pods])
    verb = "explain" if detail.phase == "Pending" else "logs"
    click.echo(f"\nNext: {command_line(verb, detail.workload_id)}")


def _show_sanitized_table(titles: Sequence[str], rows: Sequence[Sequence[str]], folded: str = "") -> None:
    show_table(titles, [[sanitize_line(cell) or "-" for cell in row] for row in rows], folded=folded)
