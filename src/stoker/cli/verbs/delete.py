"""`stoker delete`."""

import click

from stoker.cli.batches import act_on_each
from stoker.cli.options import confirm, reaches_server, yes_option
from stoker.cli.session import connect


@click.command("delete")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@yes_option
@reaches_server
def command(workloads: tuple[str, ...], yes: bool) -> None:
    """Stop workloads and hide them, by id or name.

    \b
    stoker delete train-b2c4d --yes
    """
    if workloads:
        shown = ", ".join(workloads[:5]) + (f" and {len(workloads) - 5} more" if len(workloads) > 5 else "")
        confirm(f"Delete {shown}?", yes)
    client = connect()
    act_on_each(client, workloads, client.workloads.delete_many, lambda workload_id, _: f"Deleted {workload_id}.")
