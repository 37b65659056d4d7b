"""`stoker metrics`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.amounts import degrees, percent, watts
from stoker.cli.freshness import looked
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, chosen_output, is_text, printable, show_list, show_one
from stoker.cli.plots import line_plot, plot_width, short, sparkline, spread
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.when import Duration, Moment

if TYPE_CHECKING:
    from stoker.client.fleet_shapes import GpuLine, Measured, Point

MOST_GPUS = 16
HEIGHT = 6
COLUMNS = (
    Column("METRIC", "metric"),
    Column("NODE", "node"),
    Column("GPU", "device"),
    Column("AT", "at"),
    Column("VALUE", "value"),
)
GRAPHS = (
    ("Utilization", "utilization", percent, 100.0),
    ("Memory", "memory", percent, 100.0),
    ("Power", "power", watts, 1.0),
    ("Temperature", "temperature", degrees, 1.0),
)


@click.command("metrics")
@click.argument("workload", required=False)
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="From then on, such as 1h or 7d. [default 1h]")
@click.option("--until", type=Moment(ago=True), metavar="TIME", help="Up to then. [default now, or when it ended]")
@click.option("--step", type=Duration(), help="Between two points. [default fits the range]")
@reaches_server
def command(workload: str | None, since: datetime | None, until: datetime | None, step: int | None) -> None:
    """Plot what the GPUs of a workload did: utilization, memory, power, temperature.

    \b
    stoker metrics train-b2c4d
    stoker metrics train-b2c4d --since 6h --step 5m -o csv
    """
    client = connect()
    detail = found(client, workload)
    looked(client, detail.cluster_id)
    if since is None and until is None and detail.end_time:
        until = datetime.fromisoformat(detail.end_time)
    measured = client.workloads.metrics(detail.workload_id, start=since, end=until, step=step)
    if is_text():
        _plot(measured)
    elif chosen_output() == "csv":
        show_list(_flat(measured), COLUMNS)
    else:
        show_one(measured, COLUMNS)


def _plot(measured: "Measured") -> None:
    click.echo(
        f"{measured.workload_id}, {measured.start:%Y-%m-%d %H:%M:%S} to {measured.end:%H:%M:%S} UTC, "
        f"a point every {measured.step_seconds} s"
    )
    shown = False
    for title, name, show, factor in GRAPHS:
        lines: tuple[GpuLine, ...] = getattr(measured, name)
        if lines:
            shown = True
            mean = _mean(lines)
            value, end = mean[-1]
            click.echo(f"\n{title}: {show(value)} at the end, {_how_many(lines, end)}")
            _draw([(value * factor, at) for value, at in mean])
            _sparks(lines)
    if measured.tflops:
        shown = True
        click.echo(f"\nTFLOPS: {short(measured.tflops[-1][0])} at the end, as the code says")
        _draw(measured.tflops)
    if not shown:
        click.echo("There are no readings of GPUs in this time.", err=True)


def _how_many(lines: "Sequence[GpuLine]", end: int) -> str:
    """One that began anew somewhere else has held more GPUs than it holds."""
    last = sum(line.points[-1][1] == end for line in lines)
    before = f", of {len(lines)} that it held in this time" if last < len(lines) else ""
    return f"mean of {last} GPU{'s' if last > 1 else ''}{before}"


def _draw(points: "Sequence[Point]") -> None:
    for line in line_plot([(float(at), value) for value, at in points], width=plot_width() - 2, height=HEIGHT):
        click.echo(f"  {line}")


def _sparks(lines: "Sequence[GpuLine]") -> None:
    """A GPU a line, when there are several but not too many."""
    if not 1 < len(lines) <= MOST_GPUS:
        return
    several = len({line.node for line in lines}) > 1
    names = [f"{printable(line.node)}/GPU-{line.device}" if several else f"GPU-{line.device}" for line in lines]
    longest = max(map(len, names))
    times = [at for line in lines for _, at in line.points]
    parts = max(1, min(plot_width() - longest - 4, max(len(line.points) for line in lines)))
    highest = max(value for line in lines for value, _ in line.points)
    for name, line in zip(names, lines, strict=True):
        values = spread([(at, value) for value, at in line.points], min(times), max(times), parts)
        click.echo(f"  {name:{longest}}  {sparkline(values, low=0.0, high=highest)}".rstrip())


def _mean(lines: "Sequence[GpuLine]") -> "list[Point]":
    values: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for value, at in line.points:
            values[at].append(value)
    return [(sum(found) / len(found), at) for at, found in sorted(values.items())]


def _flat(measured: "Measured") -> list[dict[str, object]]:
    gpus: list[tuple[str, str, int | None, Sequence[Point]]] = [
        (name, line.node, line.device, line.points) for _, name, _, _ in GRAPHS for line in getattr(measured, name)
    ]
    return [
        {"metric": metric, "node": node, "device": device, "at": at, "value": value}
        for metric, node, device, points in [*gpus, ("tflops", "", None, measured.tflops)]
        for value, at in points
    ]
