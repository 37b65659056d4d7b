"""`stoker usage`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from stoker.cli.destination import destination, report_options
from stoker.cli.output import dumped, printable, show_table
from stoker.cli.plots import stacked_bar
from stoker.cli.progress import waiting
from stoker.cli.session import connect
from stoker.cli.when import Moment

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.usage_shapes import UsageHours, UsageItem, UsageReport

BY = ("cluster", "workspace", "namespace", "label", "user", "workload", "model")
SORTS = ("allocated", "busy", "idle")
AT_ONCE = 1000
BUSY, OTHER, IDLE = "█", "▒", "░"
LEGEND = f"{BUSY} busy   {OTHER} starting, unmeasured or faulty   {IDLE} idle"


@click.command("usage")
@click.option("--by", type=click.Choice(BY), help="What a row is. [default workspace, or label with --label]")
@click.option("--label", default="", metavar="KEY", help="A row for each value of this label.")
@click.option("--since", type=Moment(ago=True), metavar="TIME", help="From then on, such as 24h or 30d. [default 7d]")
@click.option("--until", type=Moment(ago=True), metavar="TIME", help="Up to then. [default now]")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--workspace", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--sort", type=click.Choice(SORTS), default="allocated", show_default=True, help="Most first.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Rows; 0 for all.")
@report_options
def command(
    by: str | None,
    label: str,
    since: datetime | None,
    until: datetime | None,
    cluster: str,
    workspace: str,
    sort: str,
    limit: int,
    output: str | None,
    form: str | None,
) -> None:
    """Add up what GPUs were used for: GPU-hours that were allocated, busy and idle, and what they cost.

    Hours are hours of UTC, and only those that are over count. A file of CSV or Parquet has every row.

    \b
    stoker usage
    stoker usage --by user --since 30d --until 2027-01-31T00:00:00Z
    stoker usage --label team -o usage.csv
    """
    chosen = destination(output, form)
    asked: dict[str, Any] = {
        "by": by or "",
        "label": label,
        "since": since,
        "until": until,
        "cluster": cluster,
        "workspace": workspace,
        "sort": sort,
    }
    client = connect()
    if chosen.form in {"csv", "parquet"}:
        with waiting("Adding up"):
            sheet = client.usage.sheet(format=chosen.form, **asked)
        chosen.write(sheet.content)
        return
    with waiting("Adding up"):
        report = _read(client, asked, limit)
    if chosen.is_text:
        _show(report, wide=chosen.form == "wide")
    else:
        chosen.write(dumped(report, chosen.form).encode())


def _read(client: "Stoker", asked: dict[str, Any], limit: int) -> "UsageReport":
    """A report with as many rows as are wanted, of however many pages."""
    whole = report = client.usage.report(**asked, limit=min(limit or AT_ONCE, AT_ONCE))
    items = list(report.items)
    while report.next is not None and (not limit or len(items) < limit):
        wanted = min(limit - len(items) if limit else AT_ONCE, AT_ONCE)
        report = client.usage.report(**asked, offset=report.next, limit=wanted)
        items += report.items
    return structs.replace(whole, items=tuple(items), next=report.next)


def _show(report: "UsageReport", *, wide: bool) -> None:
    by = f"label {printable(report.label)}" if report.label else report.by
    closed = report.through > report.since
    end = report.through if closed else report.until
    click.echo(f"GPU-hours by {by}, {report.since:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC\n")
    if not report.items:
        click.echo("Nobody held a GPU in this time." if closed else "No hour of this time is closed yet.", err=True)
    shown: list[UsageHours] = [*report.items, report.totals]
    most = max((item.allocated_gpu_hours for item in report.items), default=0.0)
    columns = [
        [report.by.upper(), *(printable(item.name) or "(none)" for item in report.items), "total"],
        *(_words(title, [getattr(item, name) for item in report.items]) for title, name in _owners(report)),
        *(_numbers(title, [getattr(each, name) for each in shown]) for title, name in _amounts(report, wide=wide)),
        ["", *(_bar(item, most) for item in report.items), ""],
    ]
    titles, *rows = zip(*columns, strict=True)
    show_table(titles, rows)
    if report.items:
        click.echo(f"\n{LEGEND}")
    for line in _notes(report):
        click.echo(line, err=True)


def _owners(report: "UsageReport") -> list[tuple[str, str]]:
    return [("WORKSPACE", "workspace"), ("USER", "user")] if report.by == "workload" else []


def _amounts(report: "UsageReport", *, wide: bool) -> list[tuple[str, str]]:
    """The columns of numbers: those of whole GPUs and of money only where there are any."""
    found = [("ALLOCATED", "allocated"), ("BUSY", "busy"), ("IDLE", "idle")]
    if wide:
        found += [("STARTING", "starting"), ("UNMEASURED", "unmeasured"), ("LOST", "lost")]
    if any(item.capacity_gpu_hours is not None for item in report.items):
        found += [("FREE", "free"), ("FAULTY", "faulty"), ("CAPACITY", "capacity")]
    columns = [(title, f"{name}_gpu_hours") for title, name in found]
    if report.prices:
        currency = f" {printable(report.currency)}" if report.currency else ""
        columns += [(f"COST{currency}", "cost"), (f"IDLE COST{currency}", "idle_cost")]
    return columns


def _words(title: str, values: Sequence[str | None]) -> list[str]:
    return [title, *(printable(value or "-") for value in values), ""]


def _numbers(title: str, values: Sequence[float | None]) -> list[str]:
    digits = 2 if "COST" in title else 1
    cells = [title, *("-" if value is None else f"{value:,.{digits}f}" for value in values)]
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells]


def _bar(item: "UsageItem", most: float) -> str:
    other = item.allocated_gpu_hours - item.busy_gpu_hours - item.idle_gpu_hours
    return stacked_bar([(item.busy_gpu_hours, BUSY), (other, OTHER), (item.idle_gpu_hours, IDLE)], most)


def _notes(report: "UsageReport") -> list[str]:
    """What a person has to know before believing the numbers."""
    found = [
        f"Cluster {printable(each.name)} is simulated."
        for each in report.clusters
        if each.simulated and each.through is not None
    ]
    if report.next is not None:
        found.append(f"These are {len(report.items)} of {report.total} rows; --limit 0 shows all. The total is of all.")
    if report.prices and report.unpriced_models:
        models = ", ".join(printable(model) for model in report.unpriced_models)
        found.append(f"No price is set for {models}; the setting gpu_prices has prices.")
    behind = [each for each in report.clusters if each.through is not None and each.through > report.through]
    if behind and report.through < report.until:
        further = ", ".join(f"{printable(each.name)} up to {each.through:%Y-%m-%d %H:%M}" for each in behind)
        found.append(f"Of these clusters later hours are in it too: {further}.")
    return found
