"""`stoker nodes`."""

import click

from stoker.cli.amounts import count, degrees, percent, size, watts
from stoker.cli.freshness import looked
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, show_first
from stoker.cli.session import connect

STATES = ("idle", "partial", "busy", "faulty")
SORTS = ("name", "allocated", "utilization", "memory", "power", "temperature")
COLUMNS = (
    Column("NODE", "name"),
    Column("CLUSTER", "cluster"),
    Column("STATE", "state"),
    Column("GPUS", "gpus"),
    Column("ALLOCATED", "allocatedGpus", show=count),
    Column("MODEL", "models"),
    Column("UTILIZATION", "utilization", show=percent),
    Column("MEMORY", "memory", show=percent),
    Column("POWER", "powerWatts", show=watts),
    Column("HOTTEST", "temperature", show=degrees),
    Column("PODS", "pods"),
    Column("FAULT", "fault"),
    Column("POOL", "pool", wide=True),
    Column("READY", "ready", wide=True),
    Column("CORDONED", "cordoned", wide=True),
    Column("CPUS", "cpus", wide=True, show=count),
    Column("CPUS ALLOCATED", "allocatedCpus", wide=True, show=count),
    Column("RAM", "memoryBytes", wide=True, show=size),
    Column("RAM ALLOCATED", "allocatedMemoryBytes", wide=True, show=size),
)


@click.command("nodes")
@click.argument("name", required=False, metavar="[TEXT]")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--pool", default="", metavar="NAME", help="Only of this pool.")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), default=None, help="Only in this state.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="name", help="Highest first, but names from A. [default name]"
)
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="At the most; 0 for all.")
@reaches_server
def command(name: str | None, cluster: str, pool: str, state: str | None, sort: str, limit: int) -> None:
    """List nodes with what is given out of them and what they do; TEXT is a part of the name.

    \b
    stoker nodes --state faulty
    stoker nodes gpu-node --sort utilization --limit 20
    """
    client = connect()
    looked(client, cluster)
    order = "asc" if sort == "name" else "desc"
    found = client.fleet.nodes(cluster=cluster, name=name or "", pool=pool, state=state or "", sort=sort, order=order)
    show_first(found, limit, COLUMNS)
