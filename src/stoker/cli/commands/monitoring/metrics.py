"""`stoker metrics`."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.input.time_params import DurationParam, InstantParam, format_interval
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.format import format_celsius, format_percent, format_watts
from stoker.cli.render.output import Column, is_text, sanitize_line, selected_output, show_list, show_one
from stoker.cli.render.plots import (
    axis_labels,
    bin_means,
    format_short,
    line_plot,
    plot_width,
    sparkline,
    time_axis,
    time_labels,
)
from stoker.cli.render.staleness import fetch_overview
from stoker.domain.cluster.quantity import humanize_count

if TYPE_CHECKING:
    from stoker.domain.metrics.series import SeriesPoint
    from stoker.wire.workloads import GpuMetricsView, GpuSeriesView

MAX_GPU_SPARKLINES = 16
HEIGHT = 6
COLUMNS = (
    Column("METRIC", "metric"),
    Column("NODE", "node"),
    Column("GPU", "device"),
    Column("AT", "at"),
    Column("VALUE", "value"),
)
GRAPHS = (
    ("Utilization", "utilization", format_percent, 100.0, "%"),
    ("Memory", "memory", format_percent, 100.0, "%"),
    ("Power", "power", format_watts, 1.0, " W"),
    ("Temperature", "temperature", format_celsius, 1.0, " °C"),
)
"""Title, field, format of a value, and the factor and unit of the plot's scale."""


@click.command("metrics")
@click.argument("workload", required=False)
@click.option(
    "--since", type=InstantParam(ago=True), metavar="TIME", help="Start of the range, such as 1h or 7d. [default 1h]"
)
@click.option(
    "--until",
    type=InstantParam(ago=True),
    metavar="TIME",
    help="End of the range. [default now, or the end of the workload]",
)
@click.option("--step", type=DurationParam(), help="Time between two points. [default fits the range]")
@server_options
def metrics_command(workload: str | None, since: datetime | None, until: datetime | None, step: int | None) -> None:
    """Plot the GPU metrics of a workload: utilization, memory, power, temperature.

    \b
    stoker metrics train-b2c4d
    stoker metrics train-b2c4d --since 6h --step 5m -o csv
    """
    client = connect()
    detail = resolve_workload(client, workload, or_newest=True)
    fetch_overview(client, detail.cluster_id)
    if since is None and until is None and detail.end_time:
        until = datetime.fromisoformat(detail.end_time)
    measured = client.workloads.metrics(detail.workload_id, start=since, end=until, step=step)
    if is_text():
        _plot_metrics(measured)
    elif selected_output() == "csv":
        show_list(_flatten_series(measured), COLUMNS)
    else:
        show_one(measured, COLUMNS)


def _plot_metrics(measured: "GpuMetricsView") -> None:
    click.echo(
        f"{measured.workload_id}, {format_interval(measured.start, measured.end)}, "
        f"a point every {measured.step_seconds} s"
    )
    shown = False
    for title, name, show, factor, unit in GRAPHS:
        lines: tuple[GpuSeriesView, ...] = getattr(measured, name)
        if lines:
            shown = True
            mean = _mean_series(lines)
            value, end = mean[-1]
            click.echo(f"\n{title}: {show(value)} at the end, {_gpu_count_note(lines, end)}")
            _draw_plot([(value * factor, at) for value, at in mean], unit)
            _draw_sparklines(lines, show)
    if measured.tflops:
        shown = True
        click.echo(f"\nTFLOPS: {format_short(measured.tflops[-1][0])} at the end, as the code says")
        _draw_plot(measured.tflops)
    if not shown:
        click.echo("There are no readings of GPUs in this time.", err=True)


def _gpu_count_note(lines: "Sequence[GpuSeriesView]", end: int) -> str:
    """A note if the workload has held more GPUs than it holds now, as after a restart on other nodes."""
    last = sum(line.points[-1][1] == end for line in lines)
    before = f", of {len(lines)} that it held in this time" if last < len(lines) else ""
    return f"mean of {humanize_count(last, 'GPU')}{before}"


def _draw_plot(points: "Sequence[SeriesPoint]", unit: str = "") -> None:
    width = plot_width() - 2
    seconds = [(at / 1000, value) for value, at in points]
    plot = line_plot(seconds, width=width, height=HEIGHT, unit=unit)
    for line in plot:
        click.echo(f"  {line}")
    if plot:
        click.echo(f"  {time_axis(plot, seconds[0][0], seconds[-1][0], width)}")


def _draw_sparklines(lines: "Sequence[GpuSeriesView]", show: Callable[[float], str]) -> None:
    """One sparkline for each GPU below a common scale, unless there are too many."""
    if not 1 < len(lines) <= MAX_GPU_SPARKLINES:
        return
    several = len({line.node for line in lines}) > 1
    names = [f"{sanitize_line(line.node)}/GPU-{line.device}" if several else f"GPU-{line.device}" for line in lines]
    longest = max(map(len, names))
    times = [at for line in lines for _, at in line.points]
    parts = max(1, min(plot_width() - longest - 4, max(len(line.points) for line in lines)))
    highest = max(value for line in lines for value, _ in line.points)
    click.echo(f"  Each GPU, {show(0)} to {show(highest)}:")
    for name, line in zip(names, lines, strict=True):
        values = bin_means([(at, value) for value, at in line.points], min(times), max(times), parts)
        click.echo(f"  {name:{longest}}  {sparkline(values, low=0.0, high=highest)}".rstrip())
    begin, end = time_labels(min(times) / 1000, max(times) / 1000)
    click.echo(f"  {'':{longest}}  {axis_labels(begin, end, parts)}")


def _mean_series(lines: "Sequence[GpuSeriesView]") -> "list[SeriesPoint]":
    values: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for value, at in line.points:
            values[at].append(value)
    return [(sum(found) / len(found), at) for at, found in sorted(values.items())]


def _flatten_series(measured: "GpuMetricsView") -> list[dict[str, object]]:
    gpus: list[tuple[str, str, int | None, Sequence[SeriesPoint]]] = [
        (name, line.node, line.device, line.points) for _, name, *_ in GRAPHS for line in getattr(measured, name)
    ]
    return [
        {"metric": metric, "node": node, "device": device, "at": at, "value": value}
        for metric, node, device, points in [*gpus, ("tflops", "", None, measured.tflops)]
        for value, at in points
    ]
