"""`stoker wait`."""

import time
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.errors import CommandError
from stoker.cli.core.options import command_line, server_options
from stoker.cli.input.time_params import DurationParam
from stoker.cli.remote.attach import wait_for_workload
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.output import Column, is_text, show_list
from stoker.cli.render.progress import format_status

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.management import WorkloadDetailView

COLUMNS = (Column("ID", "workloadId"), Column("PHASE", "phase"), Column("MESSAGE", "message"))
RUNNING, ENDED = "running", "ended"


@click.command("wait")
@click.argument("workloads", nargs=-1, metavar="WORKLOAD...")
@click.option("--for", "until", type=click.Choice((RUNNING, ENDED)), default=ENDED, help="[default ended]")
@click.option("--timeout", type=DurationParam(), help="Give up after this long, such as 30m.")
@server_options
@click.pass_context
def wait_command(ctx: click.Context, workloads: tuple[str, ...], until: str, timeout: int | None) -> None:
    """Wait until workloads are running or have ended.

    The exit code is 0 if all are running or succeeded, and 1 if one failed, was stopped, or the timeout expired.

    \b
    stoker wait train-b2c4d
    stoker wait train eval --for running --timeout 30m
    """
    client = connect()
    deadline = None if timeout is None else time.monotonic() + timeout
    details = [resolve_workload(client, ref).workload_id for ref in workloads or (None,)]
    reached = [_wait_for_phase(client, workload_id, until, deadline) for workload_id in dict.fromkeys(details)]
    if is_text():
        for detail in reached:
            click.echo(format_status(detail))
    else:
        show_list(reached, COLUMNS, {"totalCount": len(reached)})
    good = {"Succeeded", "Running", "Updating"} if until == RUNNING else {"Succeeded"}
    ctx.exit(0 if all(detail.phase in good for detail in reached) else 1)


def _wait_for_phase(client: "Stoker", workload_id: str, until: str, deadline: float | None) -> "WorkloadDetailView":
    phases = {"Running", "Updating"} if until == RUNNING else set()
    try:
        return wait_for_workload(client, workload_id, lambda detail: detail.phase in phases, deadline=deadline)
    except TimeoutError:
        raise CommandError(
            f"{workload_id} is still not {until}.", following=command_line("explain", workload_id)
        ) from None
