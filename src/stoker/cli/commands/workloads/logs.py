"""`stoker logs`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.errors import NotFoundError
from stoker.cli.core.options import command_line, server_options
from stoker.cli.input.time_params import InstantParam
from stoker.cli.remote.attach import follow_workload, report_end
from stoker.cli.remote.resolve import resolve_pod
from stoker.cli.render.log_printer import LogPrinter
from stoker.cli.render.output import Column, is_text, show_list
from stoker.cli.render.progress import WorkloadProgress, format_status

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.follow import LogOutput, LogSelection
    from stoker.wire.management import WorkloadDetailView

MAX_LINES = 100_000
MAX_SEARCH_HITS = 10_000
COLUMNS = (Column("POD", "pod"), Column("ATTEMPT", "attempt"), Column("AT", "at"), Column("LINE", "line"))


@click.command("logs")
@click.argument("workload", required=False)
@click.option("--follow", "-f", is_flag=True, help="Print new lines until the workload has ended.")
@click.option("--pod", default="", metavar="POD", help="Only of this pod [default all].")
@click.option("--since", type=InstantParam(ago=True), metavar="TIME", help="Such as 10m or 2026-01-31T00:00:00Z.")
@click.option("--grep", default="", metavar="TEXT", help="Only lines that contain this text, ignoring case.")
@click.option(
    "--tail",
    type=click.IntRange(1, MAX_LINES),
    default=MAX_LINES,
    help="The last lines of each pod [default all kept].",
)
@click.option(
    "--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Logs of this attempt [default the newest]."
)
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@server_options
def logs_command(
    workload: str | None,
    follow: bool,
    pod: str,
    since: datetime | None,
    grep: str,
    tail: int,
    attempt: int | None,
    timestamps: bool,
) -> None:
    """Show the logs of a workload, by its id or name, or of one pod, by its id.

    With several pods each line begins with the pod. Logs are kept after the workload has ended.

    \b
    stoker logs train-b2c4d --tail 100
    stoker logs -f train
    stoker logs train --grep loss --since 10m --attempt 1
    """
    from stoker.client.follow import LogSelection

    client = connect()
    detail, pod_of_ref = resolve_pod(client, workload)
    choice = LogSelection(pod=pod or pod_of_ref, tail=tail, since=since, grep=grep, attempt=attempt)
    earlier = attempt is not None and attempt < detail.dispatch_count
    if choice.pod and detail.pods and not earlier and choice.pod not in {each.pod_id for each in detail.pods}:
        pods = ", ".join(each.pod_id for each in detail.pods[:5])
        raise NotFoundError(f'There is no pod "{choice.pod}" in {detail.workload_id}. There are: {pods}.')
    if attempt is not None and attempt > detail.dispatch_count and not follow:
        raise NotFoundError(_attempt_not_found(detail, attempt))
    several = detail.resource.replica > 1 and not choice.pod
    printer = LogPrinter(timestamps=timestamps, pods=several)
    if follow:
        report_end(follow_workload(client, detail.workload_id, choice, printer, WorkloadProgress()))
        return
    search = not choice.pod and (grep or earlier)  # an earlier attempt may have had other pods
    lines = _search_logs(client, detail, choice) if search else _read_logs(client, detail, choice)
    if is_text():
        for output in lines:
            printer.print_line(output)
        if not detail.dispatch_count:
            click.echo(f"{format_status(detail)}\nNext: {command_line('logs', '-f', detail.workload_id)}", err=True)
    else:
        shown = [
            {"pod": each.pod, "attempt": each.attempt, "at": _from_epoch_ms(each.line.at), "line": each.line.text}
            for each in lines
        ]
        show_list(shown, COLUMNS, {})


def _read_logs(client: "Stoker", detail: "WorkloadDetailView", choice: "LogSelection") -> "list[LogOutput]":
    """The lines of all pods in order of time."""
    from stoker.client.follow import LogOutput
    from stoker.client.results import PodLogLine

    attempt = choice.attempt or detail.dispatch_count
    outputs: list[LogOutput] = []
    pods = [choice.pod] if choice.pod else [each.pod_id for each in detail.pods]
    for pod in pods:
        found = client.workloads.logs(
            detail.workload_id,
            pod,
            tail_lines=choice.tail,
            since_seconds=choice.since_seconds(),
            grep=choice.grep,
            timestamps=True,
            attempt=attempt,
        )
        if len(found.logs) == MAX_LINES:
            click.echo(
                f"Only the last {MAX_LINES} lines of {pod} are shown; --since or --grep selects others.", err=True
            )
        outputs += (LogOutput(pod, attempt, PodLogLine.parse_timestamped(text)) for text in found.logs)
    return _sort_by_time(outputs) if len(pods) > 1 else outputs


def _search_logs(client: "Stoker", detail: "WorkloadDetailView", choice: "LogSelection") -> "list[LogOutput]":
    """Search the pods of an attempt with one request."""
    from stoker.client.follow import LogOutput
    from stoker.client.results import PodLogLine

    attempt = choice.attempt or max(1, detail.dispatch_count)
    limit = min(choice.tail, MAX_SEARCH_HITS)
    found = client.workloads.search_logs(
        detail.workload_id, text=choice.grep, since=choice.since, attempt=attempt, limit=limit
    ).items
    if len(found) == limit < choice.tail:
        click.echo(f"Only the last {limit} matches are shown; --since or --pod selects others.", err=True)
    return [LogOutput(each.pod, each.attempt, PodLogLine(at=_to_epoch_ms(each.at), text=each.line)) for each in found]


def _attempt_not_found(detail: "WorkloadDetailView", attempt: int) -> str:
    """The error for an attempt that does not exist."""
    match detail.dispatch_count:
        case 0:
            made = "has not been dispatched yet"
        case 1:
            made = "was dispatched once, as attempt 1"
        case many:
            made = f"was dispatched {many} times, as attempts 1 to {many}"
    return f"There is no attempt {attempt}: {detail.workload_id} {made}."


def _sort_by_time(outputs: "Iterable[LogOutput]") -> "list[LogOutput]":
    return sorted(outputs, key=lambda output: output.line.at)


def _to_epoch_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _from_epoch_ms(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
