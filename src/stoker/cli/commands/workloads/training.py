"""`stoker training`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.options import reaches_server
from stoker.cli.output import Column, chosen_output, is_text, show_list, show_table
from stoker.cli.plots import line_plot, plot_width, short
from stoker.cli.refs import found
from stoker.cli.session import connect
from stoker.cli.untrusted import printable
from stoker.cli.when import Moment

if TYPE_CHECKING:
    from stoker.client.workload_shapes import TrainingCurve

FIRST = ("loss", "accuracy", "tflops", "samples_per_second")
COLUMNS = (Column("METRIC", "metric"), Column("AT", "at"), Column("STEP", "step"), Column("VALUE", "value"))
HEIGHT = 8


@click.command("training")
@click.argument("workload", required=False)
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Plot this one; may be given again.")
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="Such as 10m or 2026-01-31T00:00:00Z.")
@click.option("--points", type=click.IntRange(2, 10_000), default=1000, help="Points of each metric [default 1000].")
@reaches_server
def command(workload: str | None, metrics: tuple[str, ...], since: datetime | None, points: int) -> None:
    """Plot loss and what else a workload says of its training, and list the latest of everything.

    It is read from what the workload prints, and from what its code reports with stoker.report.

    \b
    stoker training train-b2c4d
    stoker training train-b2c4d --metric grad_norm --since 1h
    stoker training train-b2c4d --points 10000 -o csv
    """
    client = connect()
    name = found(client, workload).workload_id
    curves = client.workloads.training(name, start=since, limit=points).items
    chosen = [curve for curve in curves if not metrics or curve.metric in metrics]
    if not is_text():
        show_list(_flat(chosen) if chosen_output() == "csv" else chosen, COLUMNS, {})
        if any(curve.count > len(curve.points) for curve in chosen):
            click.echo("These are some of the points, evenly chosen; --points shows more.", err=True)
        return
    if not chosen:
        click.echo(f"{name} has said nothing about {' or '.join(map(printable, metrics)) or 'training'}.", err=True)
        return
    plotted = chosen if metrics else [curve for metric in FIRST for curve in chosen if curve.metric == metric]
    for curve in plotted or chosen[:1]:
        _plot(curve)
    show_table(("METRIC", "LATEST", "LOWEST", "HIGHEST", "STEP", "POINTS"), [_row(curve) for curve in chosen])


def _plot(curve: "TrainingCurve") -> None:
    click.echo(f"{printable(curve.metric)}  {short(curve.points[-1].value)}")
    places, axis = _axis(curve)
    points = [(place, point.value) for place, point in zip(places, curve.points, strict=True)]
    rows = line_plot(points, width=plot_width())
    for row in rows:
        click.echo(row)
    margin = rows[0].index("┤") if rows else 0
    click.echo(f"{'':{margin}}  {axis}\n")


def _axis(curve: "TrainingCurve") -> tuple[Sequence[float], str]:
    """Where the points lie, by step if each has one and by time if not, and the words below."""
    steps = [point.step for point in curve.points if point.step is not None]
    if len(steps) == len(curve.points):
        return steps, f"step {min(steps):,} to {max(steps):,}"
    times = [point.at for point in curve.points]
    return [at.timestamp() for at in times], f"{times[0]:%Y-%m-%d %H:%M:%SZ} to {times[-1]:%Y-%m-%d %H:%M:%SZ}"


def _row(curve: "TrainingCurve") -> list[str]:
    values = [point.value for point in curve.points]
    step = curve.points[-1].step
    shown = [short(value) for value in (values[-1], min(values), max(values))]
    return [printable(curve.metric), *shown, "-" if step is None else str(step), str(curve.count)]


def _flat(curves: "Sequence[TrainingCurve]") -> list[dict[str, object]]:
    """A point a line."""
    return [
        {"metric": curve.metric, "at": point.at, "step": point.step, "value": point.value}
        for curve in curves
        for point in curve.points
    ]
