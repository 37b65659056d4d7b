"""`stoker events`."""

import itertools
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.output import is_text, show_json_line
from stoker.cli.render.sanitize import sanitize_line

if TYPE_CHECKING:
    from stoker.wire.workloads import WorkloadEvent


@click.command("events")
@click.option("--workload", metavar="WORKLOAD", help="Only events of this workload, by id or name, from its first one.")
@click.option(
    "--after", type=click.IntRange(min=0), metavar="NUMBER", help="Start after this event; 0 for all stored events."
)
@click.option(
    "--limit", type=click.IntRange(min=0), default=0, help="Stop after this many events; 0 for no limit [default]."
)
@server_options
def events_command(workload: str | None, after: int | None, limit: int) -> None:
    """Print the events of workloads as they happen, until Ctrl-C. With --json each event is one line.

    \b
    stoker events
    stoker events --workload train-b2c4d --json
    """
    from stoker.client.transport.reconnect import reconnecting_events

    client = connect()
    name = resolve_workload(client, workload).workload_id if workload else ""
    begin = 0 if after is None and name else after
    for event in itertools.islice(reconnecting_events(client, name, begin), limit or None):
        if is_text():
            click.echo(_format_event(event))
        else:
            show_json_line(event)


def _format_event(event: "WorkloadEvent") -> str:
    words = [f"{event.at:%Y-%m-%d %H:%M:%SZ}", event.workload_id, event.phase, event.reason, event.message]
    return sanitize_line("  ".join(word for word in words if word))
