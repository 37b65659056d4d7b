"""`stoker describe`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.options import reaches_server, typed
from stoker.cli.output import Column, is_text, show_one, show_table
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.untrusted import printable
from stoker.domain.errors import ErrorCode, StokerError

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.workload_shapes import WorkloadDetail

COLUMNS = (
    Column("Id", "workloadId"),
    Column("Name", "displayName"),
    Column("Description", "description"),
    Column("Phase", "phase"),
    Column("Message", "message"),
    Column("Place in queue", "schedulerOrder", show=lambda place: str(place or "-")),
    Column("Kind", "groupVersionKind.kind"),
    Column("Workspace", "workspaceId"),
    Column("Cluster", "clusterId"),
    Column("User", "userName"),
    Column("Priority", "priority"),
    Column("Preemptible", "preemptible"),
    Column("Guaranteed until", "guaranteedUntil"),
    Column("Replicas", "resource.replica"),
    Column("GPU", "resource.gpu"),
    Column("CPU", "resource.cpu"),
    Column("Memory", "resource.memory"),
    Column("Image", "image"),
    Column("Submitted", "creationTime"),
    Column("Started", "startTime"),
    Column("Ended", "endTime"),
    Column("Runtime", "runtime"),
    Column("Timeout", "timeout", show=lambda seconds: f"{seconds} s" if seconds else "-"),
    Column("Attempts", "dispatchCount"),
    Column("Retries at most", "maxRetry"),
    Column("Depends on", "dependencies"),
)


@click.command("describe")
@click.argument("workload", required=False)
@reaches_server
def command(workload: str | None) -> None:
    """Show everything about a workload, by id or name: what was asked for, what happened, its pods.

    \b
    stoker describe train-b2c4d
    """
    client = connect()
    detail = found(client, workload)
    show_one(detail, COLUMNS)
    if is_text():
        _show_service(client, detail.workload_id)
        _show_parts(detail)


def _show_service(client: "Stoker", workload_id: str) -> None:
    try:
        service = client.workloads.service(workload_id)
    except StokerError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            click.echo(f"\nService\n  {printable(error.message)}")
        return
    click.echo("\nService")
    host = service.cluster_ip
    for port in service.ports:
        address = f"{f'[{host}]' if ':' in host else host}:{port.port}" if host else "no address yet"
        click.echo(f"  {printable(f'{address} ({port.protocol}), to port {port.target_port} of the replicas')}")


def _show_parts(detail: "WorkloadDetail") -> None:
    if detail.entry_point:
        click.echo("\nScript")
        for line in detail.entry_point.splitlines():
            click.echo(f"  {printable(line.expandtabs())}")
    for title, pairs in (("Environment", detail.env), ("Labels", detail.customer_labels)):
        if pairs:
            click.echo(f"\n{title}")
            for name, value in pairs.items():
                click.echo(f"  {printable(f'{name}={value}')}")
    if detail.conditions:
        click.echo("\nConditions")
        rows = [(each.last_transition_time, each.type, each.reason, each.message) for each in detail.conditions]
        _table(("AT", "TYPE", "REASON", "MESSAGE"), rows)
    if detail.pods:
        click.echo("\nPods")
        _table(("POD", "PHASE", "NODE"), [(pod.pod_id, pod.phase, pod.node_name) for pod in detail.pods])
    verb = "explain" if detail.phase == "Pending" else "logs"
    click.echo(f"\nNext: {typed(verb, detail.workload_id)}")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show_table(titles, [[printable(cell) or "-" for cell in row] for row in rows])
