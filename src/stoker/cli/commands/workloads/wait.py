"""`stoker wait`."""

import time
from typing import TYPE_CHECKING

import click

from stoker.cli.attach import stay
from stoker.cli.failures import Failure
from stoker.cli.options import reaches_server, typed
from stoker.cli.output import Column, is_text, show_list
from stoker.cli.progress import standing
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.when import Duration

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.workload_shapes import WorkloadDetail

COLUMNS = (Column("ID", "workloadId"), Column("PHASE", "phase"), Column("MESSAGE", "message"))
RUNNING, ENDED = "running", "ended"


@click.command("wait")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@click.option("--for", "until", type=click.Choice((RUNNING, ENDED)), default=ENDED, help="[default ended]")
@click.option("--timeout", type=Duration(), help="Give up after this long, such as 30m.")
@reaches_server
@click.pass_context
def command(ctx: click.Context, workloads: tuple[str, ...], until: str, timeout: int | None) -> None:
    """Wait until workloads run, or have ended.

    0 when all run, or have succeeded; 1 when one failed, was stopped, or it took too long.

    \b
    stoker wait train-b2c4d
    stoker wait train eval --for running --timeout 30m
    """
    client = connect()
    deadline = None if timeout is None else time.monotonic() + timeout
    details = [found(client, ref).workload_id for ref in workloads or (None,)]
    reached = [_wait(client, workload_id, until, deadline) for workload_id in dict.fromkeys(details)]
    if is_text():
        for detail in reached:
            click.echo(standing(detail))
    else:
        show_list(reached, COLUMNS, {"totalCount": len(reached)})
    good = {"Succeeded", "Running", "Updating"} if until == RUNNING else {"Succeeded"}
    ctx.exit(0 if all(detail.phase in good for detail in reached) else 1)


def _wait(client: "Stoker", workload_id: str, until: str, deadline: float | None) -> "WorkloadDetail":
    phases = {"Running", "Updating"} if until == RUNNING else set()
    try:
        return stay(client, workload_id, lambda detail: detail.phase in phases, deadline=deadline)
    except TimeoutError:
        raise Failure(f"{workload_id} is still not {until}.", following=typed("explain", workload_id)) from None
