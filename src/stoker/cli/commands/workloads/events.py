"""`stoker events`."""

import itertools
from typing import TYPE_CHECKING

import click

from stoker.cli.options import reaches_server
from stoker.cli.output import is_text, show_json_line
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.untrusted import printable

if TYPE_CHECKING:
    from stoker.client.workload_shapes import WorkloadEvent


@click.command("events")
@click.option("--workload", metavar="WORKLOAD", help="Only of this one, by id or name, from its beginning.")
@click.option("--after", type=click.IntRange(min=0), metavar="NUMBER", help="Begin after this event; 0 for all kept.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Stop after so many; 0 goes on [default].")
@reaches_server
def command(workload: str | None, after: int | None, limit: int) -> None:
    """Follow what happens to workloads, until Ctrl-C. With --json each event is one line.

    \b
    stoker events
    stoker events --workload train-b2c4d --json
    """
    from stoker.client.patience import lasting_events

    client = connect()
    name = found(client, workload).workload_id if workload else ""
    begin = 0 if after is None and name else after
    for event in itertools.islice(lasting_events(client, name, begin), limit or None):
        if is_text():
            click.echo(_line(event))
        else:
            show_json_line(event)


def _line(event: "WorkloadEvent") -> str:
    words = [f"{event.at:%Y-%m-%d %H:%M:%SZ}", event.workload_id, event.phase, event.reason, event.message]
    return printable("  ".join(word for word in words if word))
