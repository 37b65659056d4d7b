"""`stoker stop`."""

import click

from stoker.cli.batches import act_on_each
from stoker.cli.options import reaches_server
from stoker.cli.session import connect


@click.command("stop")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@reaches_server
def command(workloads: tuple[str, ...]) -> None:
    """Stop workloads, by id or name. What has ended stays as it is; `stoker resume` starts it again.

    \b
    stoker stop train-b2c4d eval
    """
    client = connect()
    act_on_each(client, workloads, client.workloads.stop_many, lambda workload_id, _: f"Asked {workload_id} to stop.")
