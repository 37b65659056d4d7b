"""`stoker suspend`."""

import click

from stoker.cli.batches import act_on_each, one_by_one
from stoker.cli.options import reaches_server
from stoker.cli.session import connect


@click.command("suspend")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@reaches_server
def command(workloads: tuple[str, ...]) -> None:
    """Stop workloads, by id or name, to go on with `stoker resume`. What has ended by itself is refused.

    \b
    stoker suspend train-b2c4d eval
    """
    client = connect()
    act = one_by_one(client.workloads.suspend)
    act_on_each(client, workloads, act, lambda workload_id, _: f"Asked {workload_id} to stop until it is resumed.")
