"""`stoker waste`."""

from typing import TYPE_CHECKING

import click

from stoker.cli.amounts import age, count
from stoker.cli.destination import destination, report_options
from stoker.cli.freshness import looked
from stoker.cli.options import typed
from stoker.cli.output import dumped, printable, show_table
from stoker.cli.progress import waiting
from stoker.cli.session import connect
from stoker.cli.when import Duration

if TYPE_CHECKING:
    from stoker.client.usage_shapes import WasteReport

MOST = 1000
TITLES = ("WORKLOAD", "WORKSPACE", "USER", "IDLE GPUS", "MODEL", "IDLE FOR", "GPU-HOURS")


@click.command("waste")
@click.option("--threshold", type=click.FloatRange(0, 100), help="Percent of use up to which a GPU is idle.")
@click.option("--min-idle", type=Duration(), default="5m", show_default=True, help="Only idle for so long.")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--workspace", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--limit", type=click.IntRange(1, MOST), default=100, show_default=True, help="Workloads.")
@report_options
def command(
    threshold: float | None,
    min_idle: int,
    cluster: str,
    workspace: str,
    limit: int,
    output: str | None,
    form: str | None,
) -> None:
    """List GPUs that are held and not used: whose, for how long, at what cost, and what would stop it. Worst first.

    A GPU is idle when its utilization is not above the threshold; that of the server is its setting idle_threshold, and
    only below that one is known for how long. With --min-idle 0 those are in the list of which it is not known.

    \b
    stoker waste
    stoker waste --min-idle 2h --workspace vision
    stoker waste --threshold 10 --min-idle 0 -o waste.csv
    """
    chosen = destination(output, form)
    client = connect()
    if chosen.is_text:
        looked(client, cluster)
    asked = {"cluster": cluster, "workspace": workspace, "least_seconds": min_idle, "threshold": threshold}
    if chosen.form in {"csv", "parquet"}:
        with waiting("Looking at GPUs"):
            sheet = client.usage.waste_sheet(format=chosen.form, **asked)
        chosen.write(sheet.content)
        return
    with waiting("Looking at GPUs"):
        report = client.usage.waste(**asked, limit=limit)
    if chosen.is_text:
        _show(report, min_idle)
    else:
        chosen.write(dumped(report, chosen.form).encode())


def _show(report: "WasteReport", min_idle: int) -> None:
    if not report.items:
        click.echo(
            f"No GPU has been held and idle for {age(min_idle)}." if min_idle else "No held GPU is idle.", err=True
        )
        return
    currency = f" {printable(report.currency)}" if report.currency else ""
    priced = bool(report.prices)
    rows = [
        [
            printable(item.workload_id),
            printable(item.workspace),
            printable(item.user),
            f"{count(item.idle_gpus)} of {count(item.gpus)}",
            printable(item.models),
            "-" if item.idle_seconds is None else age(item.idle_seconds),
            f"{item.idle_gpu_hours:,.1f}",
            *(["-" if item.cost is None else f"{item.cost:,.2f}"] if priced else []),
            typed("stop", printable(item.workload_id)),
        ]
        for item in report.items
    ]
    show_table([*TITLES, *([f"COST{currency}"] if priced else []), "TO STOP IT"], rows)
    cost = "" if report.cost is None else f", {report.cost:,.2f}{currency} so far"
    click.echo(
        f"\n{count(report.idle_gpus)} GPUs of {report.total} workloads are idle: used no more than "
        f"{count(report.threshold)} %; {report.idle_gpu_hours:,.1f} GPU-hours{cost}."
    )
    if report.next is not None:
        click.echo(f"These are {len(report.items)} of {report.total} workloads; --limit shows more.", err=True)
    if priced and report.unpriced_models:
        models = ", ".join(printable(model) for model in report.unpriced_models)
        click.echo(f"No price is set for {models}; the setting gpu_prices has prices.", err=True)
