"""`stoker logs`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.attach import Printer, attach, say_end
from stoker.cli.failures import NotFound
from stoker.cli.options import reaches_server, typed
from stoker.cli.output import Column, is_text, show_list
from stoker.cli.progress import Progress, standing
from stoker.cli.refs import found_pod
from stoker.cli.session import connect
from stoker.cli.when import Moment

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.follow import LogChoice, Output
    from stoker.client.workload_shapes import WorkloadDetail

MOST = 100_000
MOST_FOUND = 10_000
COLUMNS = (Column("POD", "pod"), Column("ATTEMPT", "attempt"), Column("AT", "at"), Column("LINE", "line"))


@click.command("logs")
@click.argument("workload", required=False)
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until it has ended.")
@click.option("--pod", default="", metavar="POD", help="Only of this pod [default all].")
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="Such as 10m or 2026-01-31T00:00:00Z.")
@click.option("--grep", default="", metavar="TEXT", help="Only lines that hold this, in any case.")
@click.option(
    "--tail", type=click.IntRange(1, MOST), default=MOST, help="The last lines of each pod [default all kept]."
)
@click.option("--attempt", type=click.IntRange(min=1), metavar="NUMBER", help="Of this dispatch [default the newest].")
@click.option("--timestamps", is_flag=True, help="Begin each line with its time.")
@reaches_server
def command(
    workload: str | None,
    follow: bool,
    pod: str,
    since: datetime | None,
    grep: str,
    tail: int,
    attempt: int | None,
    timestamps: bool,
) -> None:
    """Show what a workload printed, by its id or name, or by the id of a pod.

    With several pods each line names its own. What was printed is kept after the end.

    \b
    stoker logs train-b2c4d --tail 100
    stoker logs -f train
    stoker logs train --grep loss --since 10m --attempt 1
    """
    from stoker.client.follow import LogChoice

    client = connect()
    detail, pod_of_ref = found_pod(client, workload)
    choice = LogChoice(pod=pod or pod_of_ref, tail=tail, since=since, grep=grep, attempt=attempt)
    earlier = attempt is not None and attempt < detail.dispatch_count
    if choice.pod and detail.pods and not earlier and choice.pod not in {each.pod_id for each in detail.pods}:
        pods = ", ".join(each.pod_id for each in detail.pods[:5])
        raise NotFound(f'There is no pod "{choice.pod}" in {detail.workload_id}. There are: {pods}.')
    if attempt is not None and attempt > detail.dispatch_count and not follow:
        raise NotFound(_no_attempt(detail, attempt))
    several = detail.resource.replica > 1 and not choice.pod
    printer = Printer(timestamps=timestamps, pods=several)
    if follow:
        say_end(attach(client, detail.workload_id, choice, printer, Progress()))
        return
    search = not choice.pod and (grep or earlier)  # the pods of an earlier attempt may be others
    lines = _found(client, detail, choice) if search else _kept(client, detail, choice)
    if is_text():
        for output in lines:
            printer.show(output)
        if not detail.dispatch_count:
            click.echo(f"{standing(detail)}\nNext: {typed('logs', '-f', detail.workload_id)}", err=True)
    else:
        shown = [
            {"pod": each.pod, "attempt": each.attempt, "at": _instant(each.line.at), "line": each.line.text}
            for each in lines
        ]
        show_list(shown, COLUMNS, {})


def _kept(client: "Stoker", detail: "WorkloadDetail", choice: "LogChoice") -> "list[Output]":
    """The lines of each pod, in the order of time."""
    from stoker.client.follow import Output
    from stoker.client.workload_shapes import LogLine

    attempt = choice.attempt or detail.dispatch_count
    outputs: list[Output] = []
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
        if len(found.logs) == MOST:
            click.echo(f"These are the last {MOST} lines of {pod}; --since or --grep shows others.", err=True)
        outputs += (Output(pod, attempt, LogLine.stamped(text)) for text in found.logs)
    return _in_order(outputs) if len(pods) > 1 else outputs


def _found(client: "Stoker", detail: "WorkloadDetail", choice: "LogChoice") -> "list[Output]":
    """A search over all pods of an attempt is one request."""
    from stoker.client.follow import Output
    from stoker.client.workload_shapes import LogLine

    attempt = choice.attempt or max(1, detail.dispatch_count)
    limit = min(choice.tail, MOST_FOUND)
    found = client.workloads.search_logs(
        detail.workload_id, text=choice.grep, since=choice.since, attempt=attempt, limit=limit
    ).items
    if len(found) == limit < choice.tail:
        click.echo(f"These are the last {limit} of them; --since or --pod shows others.", err=True)
    return [Output(each.pod, each.attempt, LogLine(at=_milliseconds(each.at), text=each.line)) for each in found]


def _no_attempt(detail: "WorkloadDetail", attempt: int) -> str:
    """It was asked for the lines of an attempt that was never made."""
    match detail.dispatch_count:
        case 0:
            made = "has not been dispatched yet"
        case 1:
            made = "was dispatched once, as attempt 1"
        case many:
            made = f"was dispatched {many} times, as attempts 1 to {many}"
    return f"There is no attempt {attempt}: {detail.workload_id} {made}."


def _in_order(outputs: "Iterable[Output]") -> "list[Output]":
    return sorted(outputs, key=lambda output: output.line.at)


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _instant(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
