"""`stoker overview`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.amounts import count, known, percent, size, watts
from stoker.cli.freshness import label, readings, warn
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, chosen_output, is_text, show_list, show_one, show_table
from stoker.cli.session import connect

if TYPE_CHECKING:
    from stoker.client.fleet_shapes import FleetNow, Overview

TITLES = (
    *("CLUSTER", "NODES", "IDLE", "PARTIAL", "BUSY", "CPU ONLY", "FAULTY"),
    *("GPUS", "ALLOCATED", "UTILIZATION", "POWER", "READINGS"),
)
COLUMNS = (
    Column("CLUSTER", "name"),
    Column("ENGINE", "engine"),
    Column("SIMULATED", "simulated"),
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
    Column("ALLOCATED", "now.allocatedGpus"),
    Column("ALLOCATION", "now.allocationRate"),
    Column("UTILIZATION", "now.utilization"),
    Column("POWER", "now.powerWatts"),
)


@click.command("overview")
@click.option("--cluster", default="", metavar="NAME", help="Only this cluster.")
@reaches_server
def command(cluster: str) -> None:
    """Show nodes, GPUs and what they do, of all clusters.

    \b
    stoker overview
    stoker overview --cluster local --json
    """
    overview = connect().fleet.overview(cluster=cluster)
    warn(overview)
    if is_text():
        _show(overview)
    elif chosen_output() == "csv":
        show_list(overview.clusters, COLUMNS)
    else:
        show_one(overview, COLUMNS)


def _show(overview: "Overview") -> None:
    rows = [[label(cluster), *_cells(cluster.now), readings(cluster)] for cluster in overview.clusters]
    if len(rows) > 1:
        rows.append(["all", *_cells(overview.total), ""])
    show_table(TITLES, rows)
    total = overview.total
    if total.storage_total_bytes:
        click.echo(f"\nStorage: {size(total.storage_used_bytes)} of {size(total.storage_total_bytes)} used.")
    if total.rdma_ports:
        speed = f"{total.rdma_bits_per_second / 1e9:g} Gbps"
        click.echo(f"RDMA: {total.rdma_active_ports} of {total.rdma_ports} ports up, {speed} each.")


def _cells(now: "FleetNow") -> list[str]:
    return [
        *map(str, (now.nodes, now.idle_nodes, now.partial_nodes, now.busy_nodes, now.cpu_nodes, now.faulty_nodes)),
        str(now.gpus),
        f"{count(now.allocated_gpus)} ({percent(now.allocation_rate)})",
        known(now.utilization, percent),
        known(now.power_watts, watts),
    ]
