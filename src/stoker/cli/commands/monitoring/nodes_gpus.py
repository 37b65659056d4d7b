"""`stoker nodes` and `stoker gpus`."""

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.render.format import (
    format_byte_rate,
    format_bytes,
    format_celsius,
    format_number,
    format_percent,
    format_unschedulable_gpus,
    format_watts,
)
from stoker.cli.render.output import Column, is_text, show_page
from stoker.cli.render.staleness import fetch_overview
from stoker.domain.cluster.quantity import humanize_count

NODE_STATES = ("idle", "partial", "busy", "faulty")
SORT_KEYS = ("name", "allocated", "utilization", "memory", "power", "temperature")
NODE_COLUMNS = (
    Column("NODE", "name"),
    Column("CLUSTER", "cluster"),
    Column("STATE", "state"),
    Column("GPUS", "gpus"),
    Column("ALLOCATED", "allocatedGpus", formatter=format_number),
    Column("MODEL", "models"),
    Column("UTILIZATION", "utilization", formatter=format_percent),
    Column("MEMORY", "memory", formatter=format_percent),
    Column("POWER", "powerWatts", formatter=format_watts),
    Column("HOTTEST", "temperature", formatter=format_celsius),
    Column("PODS", "pods"),
    Column("FAULT", "fault"),
    Column("FAULTY GPUS", "faultyGpus", wide=True),
    Column("POOL", "pool", wide=True),
    Column("READY", "ready", wide=True),
    Column("CORDONED", "cordoned", wide=True),
    Column("CPUS", "cpus", wide=True, formatter=format_number),
    Column("CPUS ALLOCATED", "allocatedCpus", wide=True, formatter=format_number),
    Column("RAM", "memoryBytes", wide=True, formatter=format_bytes),
    Column("RAM ALLOCATED", "allocatedMemoryBytes", wide=True, formatter=format_bytes),
    Column("RDMA IN", "rdmaReceivedBytesPerSecond", wide=True, formatter=format_byte_rate),
    Column("RDMA OUT", "rdmaSentBytesPerSecond", wide=True, formatter=format_byte_rate),
)
NODE_COLUMN_PRIORITY = (
    *("NODE", "STATE", "GPUS", "FAULT", "ALLOCATED", "UTILIZATION"),
    *("MODEL", "PODS", "MEMORY", "POWER", "HOTTEST", "CLUSTER"),
)
"""The columns in order of importance: a narrow terminal omits the last ones first."""


@click.command("nodes")
@click.argument("name", required=False, metavar="[TEXT]")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--pool", default="", metavar="NAME", help="Only of this pool.")
@click.option("--state", type=click.Choice(NODE_STATES, case_sensitive=False), default=None, help="Only in this state.")
@click.option(
    "--sort", type=click.Choice(SORT_KEYS), default="name", help="Highest first, but names from A. [default name]"
)
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Maximum number; 0 for all.")
@server_options
def nodes_command(name: str | None, cluster: str, pool: str, state: str | None, sort: str, limit: int) -> None:
    """List nodes with their allocation and utilization; TEXT is a part of the name.

    \b
    stoker nodes --state faulty
    stoker nodes gpu-node --sort utilization --limit 20
    """
    client = connect()
    fetch_overview(client, cluster)
    order = "asc" if sort == "name" else "desc"
    found = client.fleet.nodes(cluster=cluster, name=name or "", pool=pool, state=state or "", sort=sort, order=order)
    show_page(found, limit, NODE_COLUMNS, NODE_COLUMN_PRIORITY)


pass

GPU_STATES = ("idle", "allocated", "faulty")
GPU_COLUMNS = (
    Column("NODE", "node"),
    Column("GPU", "device"),
    Column("CLUSTER", "cluster"),
    Column("STATE", "state"),
    Column("WORKLOAD", "workload"),
    Column("MODEL", "model"),
    Column("UTILIZATION", "utilization", formatter=format_percent),
    Column("MEMORY", "memoryUsedBytes", formatter=format_bytes),
    Column("POWER", "powerWatts", formatter=format_watts),
    Column("TEMPERATURE", "temperature", formatter=format_celsius),
    Column("FAULT", "fault"),
    Column("ALLOCATED", "allocated", wide=True, formatter=format_number),
    Column("IDLE SINCE", "idleSince", wide=True),
    Column("MEMORY TOTAL", "memoryTotalBytes", wide=True, formatter=format_bytes),
    Column("UUID", "uuid", wide=True),
)
GPU_COLUMN_PRIORITY = (
    *("NODE", "GPU", "STATE", "WORKLOAD", "FAULT", "UTILIZATION"),
    *("MEMORY", "MODEL", "POWER", "TEMPERATURE", "CLUSTER"),
)
"""The columns in order of importance: a narrow terminal omits the last ones first."""


@click.command("gpus")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--node", default="", metavar="NAME", help="Only of this node.")
@click.option("--model", default="", metavar="TEXT", help="Part of the model, such as mi300x.")
@click.option("--workload", default="", metavar="TEXT", help="Part of the id of its workload.")
@click.option("--state", type=click.Choice(GPU_STATES, case_sensitive=False), default=None, help="Only in this state.")
@click.option(
    "--sort", type=click.Choice(SORT_KEYS), default="name", help="Highest first, but names from A. [default name]"
)
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Maximum number; 0 for all.")
@server_options
def gpus_command(cluster: str, node: str, model: str, workload: str, state: str | None, sort: str, limit: int) -> None:
    """List GPUs with their workload and utilization.

    \b
    stoker gpus --state idle --model mi300x
    stoker gpus --workload train-b2c4d --sort temperature
    """
    client = connect()
    total = fetch_overview(client, cluster).total
    if is_text() and (withheld := format_unschedulable_gpus(total)):
        click.echo(f"{humanize_count(total.gpus, 'GPU')}, {withheld}.", err=True)
    order = "asc" if sort == "name" else "desc"
    found = client.fleet.gpus(
        cluster=cluster, node=node, model=model, workload=workload, state=state or "", sort=sort, order=order
    )
    show_page(found, limit, GPU_COLUMNS, GPU_COLUMN_PRIORITY)
