"""`stoker usage`."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from stoker.cli.core.connection import connect
from stoker.cli.input.time_params import InstantParam
from stoker.cli.render.output import dump_text, sanitize_line, show_table
from stoker.cli.render.output_target import report_options, resolve_output_target
from stoker.cli.render.plots import stacked_bar
from stoker.cli.render.progress import show_spinner

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.usage import UsageHours, UsageItem, UsageView

GROUPINGS = ("cluster", "workspace", "namespace", "label", "user", "workload", "model")
SORT_KEYS = ("allocated", "busy", "idle")
PAGE_SIZE = 1000
BUSY_MARK, OTHER_MARK, IDLE_MARK = "█", "▒", "░"
LEGEND = f"{BUSY_MARK} busy   {OTHER_MARK} starting, unmeasured or faulty   {IDLE_MARK} idle"
OPEN_LEGEND = f"{BUSY_MARK} busy   {OTHER_MARK} starting, unmeasured, faulty or not closed yet   {IDLE_MARK} idle"


@click.command("usage")
@click.option(
    "--by", type=click.Choice(GROUPINGS), help="Group rows by this. [default workspace, or label with --label]"
)
@click.option("--label", default="", metavar="KEY", help="A row for each value of this label.")
@click.option(
    "--since", type=InstantParam(ago=True), metavar="TIME", help="Start of the range, such as 24h or 30d. [default 7d]"
)
@click.option("--until", type=InstantParam(ago=True), metavar="TIME", help="End of the range. [default now]")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--workspace", default="", metavar="NAME", help="Only of this workspace.")
@click.option("--sort", type=click.Choice(SORT_KEYS), default="allocated", show_default=True, help="Most first.")
@click.option("--limit", type=click.IntRange(0), default=100, show_default=True, help="Rows; 0 for all.")
@report_options
def usage_command(
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
    """Report GPU usage: allocated, busy and idle GPU-hours, and their cost.

    Hours are UTC hours. For hours that are not closed yet, such as the current one, only the allocation is known: it is
    in the column OPEN. A CSV or Parquet file has all rows.

    \b
    stoker usage
    stoker usage --by user --since 30d --until 2027-01-31T00:00:00Z
    stoker usage --label team -o usage.csv
    """
    chosen = resolve_output_target(output, form)
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
    if chosen.output_format in {"csv", "parquet"}:
        with show_spinner("Adding up"):
            sheet = client.usage.export(format=chosen.output_format, **asked)
        chosen.write(sheet.content)
        return
    with show_spinner("Adding up"):
        report = _read_report(client, asked, limit)
    if chosen.is_text:
        _show_report(report, wide=chosen.output_format == "wide")
    else:
        chosen.write(dump_text(report, chosen.output_format).encode())


def _read_report(client: "Stoker", asked: dict[str, Any], limit: int) -> "UsageView":
    """A report with as many rows as requested, read page by page."""
    whole = report = client.usage.report(**asked, limit=min(limit or PAGE_SIZE, PAGE_SIZE))
    items = list(report.items)
    while report.next is not None and (not limit or len(items) < limit):
        wanted = min(limit - len(items) if limit else PAGE_SIZE, PAGE_SIZE)
        report = client.usage.report(**asked, offset=report.next, limit=wanted)
        items += report.items
    return structs.replace(whole, items=tuple(items), next=report.next)


def _show_report(report: "UsageView", *, wide: bool) -> None:
    by = f"label {sanitize_line(report.label)}" if report.label else report.by
    closed = report.through > report.since
    end = report.open_until or (report.through if closed else report.until)
    click.echo(f"GPU-hours by {by}, {report.since:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC\n")
    if not report.items:
        click.echo("Nobody held a GPU in this time." if closed else "No hour of this time is closed yet.", err=True)
    shown: list[UsageHours | UsageItem] = [*report.items, report.totals]
    most = max((item.allocated_gpu_hours for item in report.items), default=0.0)
    columns = [
        [report.by.upper(), *(sanitize_line(item.name) or "(none)" for item in report.items), "total"],
        *(
            _text_column(title, [getattr(item, name) for item in report.items])
            for title, name in _owner_columns(report)
        ),
        *(
            _number_column(title, [getattr(each, name) for each in shown])
            for title, name in _amount_columns(report, wide=wide)
        ),
        ["", *(_usage_bar(item, most) for item in report.items), ""],
    ]
    titles, *rows = zip(*columns, strict=True)
    show_table(titles, rows)
    if report.items:
        click.echo(f"\n{OPEN_LEGEND if report.totals.open_gpu_hours else LEGEND}")
    for line in _report_notes(report):
        click.echo(line, err=True)


def _owner_columns(report: "UsageView") -> list[tuple[str, str]]:
    return [("WORKSPACE", "workspace"), ("USER", "user")] if report.by == "workload" else []


def _amount_columns(report: "UsageView", *, wide: bool) -> list[tuple[str, str]]:
    """The columns of numbers; those of whole GPUs and of cost only if there are values."""
    found = [("ALLOCATED", "allocated"), ("BUSY", "busy"), ("IDLE", "idle")]
    if wide:
        found += [("STARTING", "starting"), ("UNMEASURED", "unmeasured"), ("LOST", "lost")]
    if report.totals.open_gpu_hours:
        found += [("OPEN", "open")]
    if any(item.capacity_gpu_hours is not None for item in report.items):
        found += [("FREE", "free"), ("FAULTY", "faulty"), ("CAPACITY", "capacity")]
    columns = [(title, f"{name}_gpu_hours") for title, name in found]
    if report.prices:
        currency = f" {sanitize_line(report.currency)}" if report.currency else ""
        columns += [(f"COST{currency}", "cost"), (f"IDLE COST{currency}", "idle_cost")]
    return columns


def _text_column(title: str, values: Sequence[str | None]) -> list[str]:
    return [title, *(sanitize_line(value or "-") for value in values), ""]


def _number_column(title: str, values: Sequence[float | None]) -> list[str]:
    digits = 2 if "COST" in title else 1
    cells = [title, *("-" if value is None else f"{value:,.{digits}f}" for value in values)]
    width = max(map(len, cells))
    return [cell.rjust(width) for cell in cells]


def _usage_bar(item: "UsageItem", most: float) -> str:
    other = item.allocated_gpu_hours - item.busy_gpu_hours - item.idle_gpu_hours
    return stacked_bar([(item.busy_gpu_hours, BUSY_MARK), (other, OTHER_MARK), (item.idle_gpu_hours, IDLE_MARK)], most)


def _report_notes(report: "UsageView") -> list[str]:
    """Notes on how complete and reliable the numbers are."""
    found = [
        f"Cluster {sanitize_line(each.name)} is simulated."
        for each in report.clusters
        if each.simulated and each.through is not None
    ]
    if report.closing_hours:
        hours = "1 hour is" if report.closing_hours == 1 else f"{report.closing_hours} hours are"
        found.append(f"{hours} over and still being closed: busy and idle are known when that is done.")
    if report.open_until is not None and report.totals.open_gpu_hours:
        found.append(f"OPEN is what was held since {report.through:%Y-%m-%d %H:%M}, in hours that are not closed yet.")
    if report.kept_from is not None:
        found.append(
            f"Usage before {report.kept_from:%Y-%m-%d} is no longer kept; the setting usage_days says how long."
        )
    if report.next is not None:
        found.append(f"These are {len(report.items)} of {report.total} rows; --limit 0 shows all. The total is of all.")
    if report.prices and report.unpriced_models:
        models = ", ".join(sanitize_line(model) for model in report.unpriced_models)
        found.append(f"No price is set for {models}; the setting gpu_prices has prices.")
    behind = [each for each in report.clusters if each.through is not None and each.through > report.through]
    if behind and report.through < report.until:
        further = ", ".join(f"{sanitize_line(each.name)} up to {each.through:%Y-%m-%d %H:%M}" for each in behind)
        found.append(f"Of these clusters later hours are in it too: {further}.")
    return found
