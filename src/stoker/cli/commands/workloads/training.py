"""`stoker training`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.input.time_params import InstantParam
from stoker.cli.remote.resolve import resolve_workload
from stoker.cli.render.output import Column, is_text, selected_output, show_list, show_table
from stoker.cli.render.plots import format_short, line_plot, plot_width
from stoker.cli.render.sanitize import sanitize_line

if TYPE_CHECKING:
    from stoker.wire.workloads import TrainingCurve

DEFAULT_METRICS = ("loss", "accuracy", "tflops", "samples_per_second")
COLUMNS = (Column("METRIC", "metric"), Column("AT", "at"), Column("STEP", "step"), Column("VALUE", "value"))
HEIGHT = 8


@click.command("training")
@click.argument("workload", required=False)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Plot this metric; can be repeated.")
@click.option("--since", type=InstantParam(ago=True), metavar="TIME", help="Such as 10m or 2026-01-31T00:00:00Z.")
@click.option("--points", type=click.IntRange(2, 10_000), default=1000, help="Points of each metric [default 1000].")
@server_options
def training_command(workload: str | None, metrics: tuple[str, ...], since: datetime | None, points: int) -> None:
    """Plot the loss or other training metrics of a workload, and list the latest value of each.

    Metrics are parsed from the logs, or reported by the code with stoker.report.

    \b
    stoker training train-b2c4d
    stoker training train-b2c4d --metric grad_norm --since 1h
    stoker training train-b2c4d --points 10000 -o csv
    """
    client = connect()
    name = resolve_workload(client, workload, or_newest=True).workload_id
    curves = client.workloads.training(name, start=since, limit=points).items
    chosen = [curve for curve in curves if not metrics or curve.metric in metrics]
    if not is_text():
        show_list(_flatten_curves(chosen) if selected_output() == "csv" else chosen, COLUMNS, {})
        if any(curve.count > len(curve.points) for curve in chosen):
            click.echo("These are some of the points, evenly chosen; --points shows more.", err=True)
        return
    if not chosen:
        click.echo(f"{name} has said nothing about {' or '.join(map(sanitize_line, metrics)) or 'training'}.", err=True)
        return
    plotted = chosen if metrics else [curve for metric in DEFAULT_METRICS for curve in chosen if curve.metric == metric]
    for curve in plotted or chosen[:1]:
        _plot_curve(curve)
    show_table(("METRIC", "LATEST", "LOWEST", "HIGHEST", "STEP", "POINTS"), [_summary_row(curve) for curve in chosen])


def _plot_curve(curve: "TrainingCurve") -> None:
    click.echo(f"{sanitize_line(curve.metric)}  {format_short(curve.points[-1].value)}")
    places, axis = _curve_axis(curve)
    points = [(place, point.value) for place, point in zip(places, curve.points, strict=True)]
    rows = line_plot(points, width=plot_width())
    for row in rows:
        click.echo(row)
    margin = rows[0].index("┤") if rows else 0
    click.echo(f"{'':{margin}}  {axis}\n")


def _curve_axis(curve: "TrainingCurve") -> tuple[Sequence[float], str]:
    """The position of each point, by step if all points have one and otherwise by time, and the label of the axis."""
    steps = [point.step for point in curve.points if point.step is not None]
    if len(steps) == len(curve.points):
        return steps, f"step {min(steps):,} to {max(steps):,}"
    times = [point.at for point in curve.points]
    return [at.timestamp() for at in times], f"{times[0]:%Y-%m-%d %H:%M:%SZ} to {times[-1]:%Y-%m-%d %H:%M:%SZ}"


def _summary_row(curve: "TrainingCurve") -> list[str]:
    values = [point.value for point in curve.points]
    step = curve.points[-1].step
    shown = [format_short(value) for value in (values[-1], min(values), max(values))]
    return [sanitize_line(curve.metric), *shown, "-" if step is None else str(step), str(curve.count)]


def _flatten_curves(curves: "Sequence[TrainingCurve]") -> list[dict[str, object]]:
    """One row for each point."""
    return [
        {"metric": curve.metric, "at": point.at, "step": point.step, "value": point.value}
        for curve in curves
        for point in curve.points
    ]
