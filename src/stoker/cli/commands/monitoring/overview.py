"""`stoker overview`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.render.format import (
    format_byte_rate,
    format_bytes,
    format_number,
    format_optional,
    format_percent,
    format_unschedulable_gpus,
    format_watts,
)
from stoker.cli.render.output import Column, is_text, selected_output, show_list, show_one, show_table
from stoker.cli.render.staleness import cluster_label, collector_status, print_staleness
from stoker.domain.cluster.quantity import humanize_count, humanize_number

if TYPE_CHECKING:
    from stoker.wire.fleet import FleetView, OverviewView

TITLES = (
    *("CLUSTER", "NODES", "IDLE", "PARTIAL", "BUSY", "CPU ONLY", "FAULTY"),
    *("GPUS", "ALLOCATED", "UTILIZATION", "POWER", "READINGS"),
)
COLUMN_PRIORITY = (
    *("CLUSTER", "GPUS", "ALLOCATED", "UTILIZATION", "NODES", "FAULTY"),
    *("READINGS", "POWER", "IDLE", "PARTIAL", "BUSY", "CPU ONLY"),
)
"""The columns in order of importance: a narrow terminal omits the last ones first."""
COLUMNS = (
    Column("CLUSTER", "name"),
    Column("ENGINE", "engine"),
    Column("SIMULATED", "simulated"),
    Column("UNREACHABLE SINCE", "unreachableSince"),
    Column("SOURCE", "source.name"),
    Column("AGE", "source.ageSeconds"),
    Column("STALE", "source.stale"),
    Column("NODES", "now.nodes"),
    Column("HEALTHY", "now.healthyNodes"),
    Column("FAULTY", "now.faultyNodes"),
    Column("IDLE", "now.idleNodes"),
    Column("PARTIAL", "now.partialNodes"),
    Column("BUSY", "now.busyNodes"),
    Column("CPU ONLY", "now.cpuNodes"),
    Column("GPUS", "now.gpus"),
    Column("FAULTY GPUS", "now.faultyGpus"),
    Column("SCHEDULABLE GPUS", "now.schedulableGpus"),
    Column("ALLOCATED", "now.allocatedGpus"),
    Column("ALLOCATION", "now.allocationRate"),
    Column("UTILIZATION", "now.utilization"),
    Column("POWER", "now.powerWatts"),
)


@click.command("overview")
@click.option("--cluster", default="", metavar="NAME", help="Only this cluster.")
@server_options
def overview_command(cluster: str) -> None:
    """Show the nodes, the GPUs and their utilization in all clusters.

    \b
    stoker overview
    stoker overview --cluster local --json
    """
    overview = connect().fleet.overview(cluster=cluster)
    print_staleness(overview)
    if is_text():
        _show_overview(overview)
    elif selected_output() == "csv":
        show_list(overview.clusters, COLUMNS)
    else:
        show_one(overview, COLUMNS)


def _show_overview(overview: "OverviewView") -> None:
    rows = [
        [cluster_label(cluster), *_fleet_cells(cluster.now), collector_status(cluster)] for cluster in overview.clusters
    ]
    if len(rows) > 1:
        rows.append(["all", *_fleet_cells(overview.total), ""])
    show_table(TITLES, rows, COLUMN_PRIORITY)
    total = overview.total
    if withheld := format_unschedulable_gpus(total):
        given = humanize_number(total.schedulable_gpus)
        click.echo(f"\n{humanize_count(total.gpus, 'GPU')}, {withheld}; {given} can be given out.")
    if total.storage_total_bytes:
        click.echo(
            f"\nStorage: {format_bytes(total.storage_used_bytes)} of {format_bytes(total.storage_total_bytes)} used."
        )
    if total.rdma_ports:
        speed = f"{total.rdma_bits_per_second / 1e9:g} Gbps"
        rates = (total.rdma_received_bytes_per_second, total.rdma_sent_bytes_per_second)
        received, sent = map(format_byte_rate, rates)
        flow = f" {received} in, {sent} out." if any(rates) else ""
        click.echo(f"RDMA: {total.rdma_active_ports} of {total.rdma_ports} ports up, {speed} each.{flow}")


def _fleet_cells(now: "FleetView") -> list[str]:
    return [
        *map(str, (now.nodes, now.idle_nodes, now.partial_nodes, now.busy_nodes, now.cpu_nodes, now.faulty_nodes)),
        str(now.gpus),
        f"{format_number(now.allocated_gpus)} ({format_percent(now.allocation_rate)})",
        format_optional(now.utilization, format_percent),
        format_optional(now.power_watts, format_watts),
    ]
