"""`stoker resume`."""

import click

from stoker.cli.batches import act_on_each, one_by_one
from stoker.cli.options import reaches_server
from stoker.cli.session import connect


@click.command("resume")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@reaches_server
def command(workloads: tuple[str, ...]) -> None:
    """Queue stopped workloads again, by id or name, each as a new attempt.

    \b
    stoker resume train-b2c4d
    """
    client = connect()
    act = one_by_one(client.workloads.resume)
    act_on_each(client, workloads, act, lambda workload_id, _: f"Resumed {workload_id}.")
