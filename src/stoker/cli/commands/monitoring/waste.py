"""`stoker waste`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import command_line
from stoker.cli.input.time_params import DurationParam
from stoker.cli.render.format import format_age, format_number
from stoker.cli.render.output import dump_text, sanitize_line, show_table
from stoker.cli.render.output_target import report_options, resolve_output_target
from stoker.cli.render.progress import show_spinner
from stoker.cli.render.staleness import fetch_overview
from stoker.domain.cluster.quantity import humanize_count

if TYPE_CHECKING:
    from stoker.wire.usage import WasteView

MAX_WORKLOADS = 1000
TITLES = ("WORKLOAD", "WORKSPACE", "USER", "IDLE GPUS", "MODEL", "IDLE FOR", "GPU-HOURS")
STOP_COLUMN = "TO STOP IT"
COLUMN_PRIORITY = ("WORKLOAD", "IDLE GPUS", "IDLE FOR", "GPU-HOURS", "USER", "WORKSPACE", "MODEL", STOP_COLUMN)
"""The columns in order of importance: a narrow terminal omits the last ones first. The cost follows the GPU-hours."""


@click.command("waste")
@click.option("--threshold", type=click.FloatRange(0, 100), help="Utilization in percent up to which a GPU is idle.")
@click.option("--min-idle", type=DurationParam(), default="5m", show_default=True, help="Minimum idle time.")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--workspace", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--limit", type=click.IntRange(1, MAX_WORKLOADS), default=100, show_default=True, help="Workloads.")
@report_options
def waste_command(
    threshold: float | None,
    min_idle: int,
    cluster: str,
    workspace: str,
    limit: int,
    output: str | None,
    form: str | None,
) -> None:
    """List allocated GPUs that are idle, most wasteful first: idle time, cost, and how to stop them.

    A GPU is idle when its utilization is at most the threshold, by default the server's setting idle_threshold. The
    idle time is known only for GPUs at or below that setting; with --min-idle 0, GPUs without a known idle time are
    listed too.

    \b
    stoker waste
    stoker waste --min-idle 2h --workspace vision
    stoker waste --threshold 10 --min-idle 0 -o waste.csv
    """
    chosen = resolve_output_target(output, form)
    client = connect()
    if chosen.is_text:
        fetch_overview(client, cluster)
    asked = {"cluster": cluster, "workspace": workspace, "least_seconds": min_idle, "threshold": threshold}
    if chosen.output_format in {"csv", "parquet"}:
        with show_spinner("Looking at GPUs"):
            sheet = client.usage.export_waste(format=chosen.output_format, **asked)
        chosen.write(sheet.content)
        return
    with show_spinner("Looking at GPUs"):
        report = client.usage.waste(**asked, limit=limit)
    if chosen.is_text:
        _show_report(report, min_idle)
    else:
        chosen.write(dump_text(report, chosen.output_format).encode())


def _show_report(report: "WasteView", min_idle: int) -> None:
    if not report.items:
        click.echo(
            f"No GPU has been held and idle for {format_age(min_idle)}." if min_idle else "No held GPU is idle.",
            err=True,
        )
        return
    currency = f" {sanitize_line(report.currency)}" if report.currency else ""
    priced = bool(report.prices)
    rows = [
        [
            sanitize_line(item.workload_id),
            sanitize_line(item.workspace),
            sanitize_line(item.user),
            f"{format_number(item.idle_gpus)} of {format_number(item.gpus)}",
            sanitize_line(item.models),
            "-" if item.idle_seconds is None else format_age(item.idle_seconds),
            f"{item.idle_gpu_hours:,.1f}",
            *(["-" if item.cost is None else f"{item.cost:,.2f}"] if priced else []),
            command_line("stop", sanitize_line(item.workload_id)),
        ]
        for item in report.items
    ]
    costs = [f"COST{currency}"] if priced else []
    show_table([*TITLES, *costs, STOP_COLUMN], rows, (*COLUMN_PRIORITY[:4], *costs, *COLUMN_PRIORITY[4:]))
    cost = "" if report.cost is None else f", {report.cost:,.2f}{currency} so far"
    click.echo(
        f"\n{humanize_count(report.idle_gpus, 'GPU')} of {humanize_count(report.total, 'workload')} "
        f"{'is' if report.idle_gpus == 1 else 'are'} idle: used no more than "
        f"{format_number(report.threshold)} %; {report.idle_gpu_hours:,.1f} GPU-hours{cost}."
    )
    if report.next is not None:
        click.echo(f"These are {len(report.items)} of {report.total} workloads; --limit shows more.", err=True)
    if priced and report.unpriced_models:
        models = ", ".join(sanitize_line(model) for model in report.unpriced_models)
        click.echo(f"No price is set for {models}; the setting gpu_prices has prices.", err=True)
