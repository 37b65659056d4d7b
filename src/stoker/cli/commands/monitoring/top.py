"""`stoker top`."""

import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from stoker.cli.core.connection import connect
from stoker.cli.core.options import server_options
from stoker.cli.input.time_params import DurationParam
from stoker.cli.render.format import (
    format_age,
    format_number,
    format_optional,
    format_percent,
    format_unschedulable_gpus,
    format_watts,
)
from stoker.cli.render.output import (
    Column,
    is_text,
    page_fields,
    sanitize_line,
    show_list,
    show_table,
    take_first,
    truncation_note,
)
from stoker.cli.render.plots import sparkline
from stoker.cli.render.staleness import cluster_label, collector_status, staleness_warnings
from stoker.cli.render.table_fit import FittedTable
from stoker.domain.cluster.quantity import humanize_count

if TYPE_CHECKING:
    from rich.console import Group
    from rich.layout import Layout

    from stoker.client import Stoker
    from stoker.wire.fleet import ConsumerView, OverviewView

HISTORY_SAMPLES = 30
TITLES = ("WORKLOAD", "NAMESPACE", "CLUSTER", "GPUS", "UTILIZATION", "MEMORY", "POWER", "IDLE FOR")
HISTORY_COLUMN = TITLES.index("UTILIZATION") + 1
COLUMN_PRIORITY = ("WORKLOAD", "GPUS", "UTILIZATION", "MEMORY", "IDLE FOR", "POWER", "NAMESPACE", "CLUSTER")
"""The columns in order of importance: a narrow terminal omits the last ones first."""
HISTORY_PRIORITY = COLUMN_PRIORITY.index("NAMESPACE")
COLUMNS = (
    Column("WORKLOAD", "workloadId"),
    Column("NAMESPACE", "namespace"),
    Column("CLUSTER", "cluster"),
    Column("GPUS", "gpus", formatter=format_number),
    Column("UTILIZATION", "utilization", formatter=format_percent),
    Column("MEMORY", "memory", formatter=format_percent),
    Column("POWER", "powerWatts", formatter=format_watts),
    Column("IDLE SINCE", "idleSince"),
)


class TopState:
    """The fleet at one moment, and its history since the command started."""

    def __init__(self, client: "Stoker", cluster: str, limit: int, every: int = 2) -> None:
        self._client = client
        self._every = every
        self._cluster = cluster
        self._limit = limit
        self._history: dict[str, deque[float | None]] = {}
        self.overview: OverviewView
        self.consumers: list[ConsumerView] = []
        self.total = 0

    def refresh(self) -> None:
        self.overview = self._client.fleet.overview(cluster=self._cluster)
        found = self._client.fleet.consumers(cluster=self._cluster)
        self.consumers, self.total = take_first(found, self._limit)
        current = {each.uid: each.utilization for each in self.consumers}
        current[""] = self.overview.total.utilization
        self._history = {uid: self._history.get(uid, deque(maxlen=HISTORY_SAMPLES)) for uid in current}
        for uid, utilization in current.items():
            self._history[uid].append(utilization)

    def history_sparkline(self, uid: str = "") -> str:
        """The utilization of a workload, or of all, since the command started."""
        return sparkline(list(self._history[uid]), low=0.0, high=1.0)

    def time_scale(self) -> str:
        """The scale of the sparklines: their range, and the time of their first value."""
        return f"0-100%, {format_age((max(map(len, self._history.values())) - 1) * self._every)}"

    def _history_text(self) -> str:
        return f" ({self.history_sparkline()} {self.time_scale()})" if len(self._history[""]) > 1 else ""

    def summary_lines(self) -> list[str]:
        total = self.overview.total
        busy = (
            "use unknown"
            if total.utilization is None
            else f"{format_percent(total.utilization)} busy{self._history_text()}"
        )
        power = "" if total.power_watts is None else f", {format_watts(total.power_watts)}"
        withheld = f"{words}, " if (words := format_unschedulable_gpus(total)) else ""
        lines = [
            f"{format_number(total.allocated_gpus)} of {humanize_count(total.gpus, 'GPU')} allocated "
            f"({format_percent(total.allocation_rate)}), {withheld}{busy}{power}; "
            f"nodes: {total.idle_nodes} idle, {total.partial_nodes} partly used, {total.busy_nodes} full, "
            f"{f'{total.cpu_nodes} without GPUs, ' if total.cpu_nodes else ''}{total.faulty_nodes} faulty"
        ]
        lines += [f"{cluster_label(cluster)}: {collector_status(cluster)}" for cluster in self.overview.clusters]
        return lines

    def truncation_note(self) -> str:
        return truncation_note(len(self.consumers), self.total)

    def table_rows(self) -> list[list[str]]:
        return [
            [
                sanitize_line(each.workload_id),
                sanitize_line(each.namespace),
                sanitize_line(each.cluster),
                format_number(each.gpus),
                format_optional(each.utilization, format_percent),
                format_optional(each.memory, format_percent),
                format_optional(each.power_watts, format_watts),
                "-"
                if each.idle_since is None
                else format_age(int((self.overview.at - each.idle_since).total_seconds())),
            ]
            for each in self.consumers
        ]

    def build_table(self) -> FittedTable:
        """The GPU consumers, with the history of their utilization."""
        titles = [*TITLES[:HISTORY_COLUMN], self.time_scale(), *TITLES[HISTORY_COLUMN:]]
        rows = [
            [*row[:HISTORY_COLUMN], self.history_sparkline(each.uid), *row[HISTORY_COLUMN:]]
            for row, each in zip(self.table_rows(), self.consumers, strict=True)
        ]
        importance = [*COLUMN_PRIORITY[:HISTORY_PRIORITY], self.time_scale(), *COLUMN_PRIORITY[HISTORY_PRIORITY:]]
        return FittedTable(titles, rows, importance, elastic=self.time_scale())


@click.command("top")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--limit", type=click.IntRange(0), default=30, show_default=True, help="Workloads; 0 for all.")
@click.option("--every", type=DurationParam("1s", "1h"), default="2s", show_default=True, help="Between two looks.")
@click.option("--once", is_flag=True, help="Print once and exit, as in a pipe.")
@server_options
def top_command(cluster: str, limit: int, every: int, once: bool) -> None:
    """Show the workloads with the most GPUs, refreshed until `q` or Ctrl-C; in a pipe, once.

    \b
    stoker top
    stoker top --cluster local --limit 10 --once
    """
    look = TopState(connect(), cluster, limit, every)
    look.refresh()
    if not is_text():
        _print_warnings(look)
        show_list(look.consumers, COLUMNS, page_fields(len(look.consumers), look.total))
    elif once or not sys.stdout.isatty():
        _print_warnings(look)
        click.echo("\n".join(look.summary_lines()) + "\n")
        show_table(TITLES, look.table_rows(), COLUMN_PRIORITY)
    else:
        _run_live(look, every)
        return
    if note := look.truncation_note():
        click.echo(note, err=True)


def _print_warnings(look: TopState) -> None:
    for line in staleness_warnings(look.overview):
        click.echo(line, err=True)


def _run_live(look: TopState, every: int) -> None:
    """Refresh until `q` or Ctrl-C. While the server does not answer, the last values stay on the screen."""
    from rich.console import Console
    from rich.live import Live

    from stoker.cli.input.keyboard import open_keyboard

    trouble = ""
    with (
        open_keyboard() as keys,
        Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live,
    ):
        live.update(render_screen(look, trouble), refresh=True)
        while not keys.quit_pressed_within(every):
            trouble = try_refresh(look)
            live.update(render_screen(look, trouble), refresh=True)


def try_refresh(look: TopState) -> str:
    """Refresh once; returns a temporary error, or an empty text."""
    from stoker.domain.errors import ErrorCode, StokerError

    try:
        look.refresh()
    except StokerError as error:
        if error.code not in {ErrorCode.UNAVAILABLE, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.INTERNAL}:
            raise
        return f"{sanitize_line(error.message)} This is of {look.overview.at:%H:%M:%S} UTC."
    return ""


def render_page(look: TopState, trouble: str) -> "Group":
    """The content of the screen: warnings, totals and consumers."""
    from rich.console import Group
    from rich.text import Text

    warned = [
        Text(line, style="bold red") for line in (*([trouble] if trouble else []), *staleness_warnings(look.overview))
    ]
    head = [Text(line) for line in look.summary_lines()]
    return Group(*warned, *head, Text(""), look.build_table())


def render_screen(look: TopState, trouble: str) -> "Layout":
    """The whole screen: as much of the page as fits, and a footer."""
    from rich.layout import Layout
    from rich.text import Text

    screen = Layout()
    footer = f"q or Ctrl-C leaves. {look.truncation_note()}".rstrip()
    screen.split_column(Layout(render_page(look, trouble)), Layout(Text(footer, style="dim"), size=1))
    return screen
