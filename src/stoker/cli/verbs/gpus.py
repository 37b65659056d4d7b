"""`stoker gpus`."""

import click

from stoker.cli.amounts import count, degrees, percent, size, watts
from stoker.cli.freshness import looked
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, show_first
from stoker.cli.session import connect
from stoker.cli.verbs.nodes import SORTS

STATES = ("idle", "allocated", "faulty")
COLUMNS = (
    Column("NODE", "node"),
    Column("GPU", "device"),
    Column("CLUSTER", "cluster"),
    Column("STATE", "state"),
    Column("WORKLOAD", "workload"),
    Column("MODEL", "model"),
    Column("UTILIZATION", "utilization", show=percent),
    Column("MEMORY", "memoryUsedBytes", show=size),
    Column("POWER", "powerWatts", show=watts),
    Column("TEMPERATURE", "temperature", show=degrees),
    Column("FAULT", "fault"),
    Column("ALLOCATED", "allocated", wide=True, show=count),
    Column("IDLE SINCE", "idleSince", wide=True),
    Column("MEMORY TOTAL", "memoryTotalBytes", wide=True, show=size),
)


@click.command("gpus")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--node", default="", metavar="NAME", help="Only of this node.")
@click.option("--model", default="", metavar="TEXT", help="Part of the model, such as mi300x.")
@click.option("--workload", default="", metavar="TEXT", help="Part of the id of the workload that holds it.")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), default=None, help="Only in this state.")
@click.option(
    "--sort", type=click.Choice(SORTS), default="name", help="Highest first, but names from A. [default name]"
)
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="At the most; 0 for all.")
@reaches_server
def command(cluster: str, node: str, model: str, workload: str, state: str | None, sort: str, limit: int) -> None:
    """List GPUs with who holds them and what they do.

    \b
    stoker gpus --state idle --model mi300x
    stoker gpus --workload train-b2c4d --sort temperature
    """
    client = connect()
    looked(client, cluster)
    order = "asc" if sort == "name" else "desc"
    found = client.fleet.gpus(
        cluster=cluster, node=node, model=model, workload=workload, state=state or "", sort=sort, order=order
    )
    show_first(found, limit, COLUMNS)
