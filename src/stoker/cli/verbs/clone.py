"""`stoker clone`."""

import click

from stoker.cli.batches import act_on_each
from stoker.cli.options import reaches_server, typed
from stoker.cli.output import say
from stoker.cli.session import connect


@click.command("clone")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@reaches_server
def command(workloads: tuple[str, ...]) -> None:
    """Submit copies of workloads, by id or name; the copies are yours.

    \b
    stoker clone train-b2c4d
    """
    client = connect()
    act_on_each(
        client,
        workloads,
        client.workloads.clone,
        lambda workload_id, clone: f"Submitted {clone}, a copy of {workload_id}.",
    )
    say(f"Next: {typed('list')}")
