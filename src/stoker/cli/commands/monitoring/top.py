"""`stoker top`."""

import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from stoker.cli.amounts import age, count, known, percent, watts
from stoker.cli.fitting import Fitted
from stoker.cli.freshness import label, readings, warnings
from stoker.cli.options import reaches_server
from stoker.cli.output import Column, beside_part, first_of, is_text, left_out, printable, show_list, show_table
from stoker.cli.plots import sparkline
from stoker.cli.session import connect
from stoker.cli.when import Duration

if TYPE_CHECKING:
    from rich.console import Group
    from rich.layout import Layout

    from stoker.client import Stoker
    from stoker.client.fleet_shapes import Consumer, Overview

HISTORY = 30
TITLES = ("WORKLOAD", "NAMESPACE", "CLUSTER", "GPUS", "UTILIZATION", "", "MEMORY", "POWER", "IDLE FOR")
SPARED = ("CLUSTER", "NAMESPACE", "POWER", "IDLE FOR", "MEMORY")
"""What a narrow screen goes without, the first of them first."""
COLUMNS = (
    Column("WORKLOAD", "workloadId"),
    Column("NAMESPACE", "namespace"),
    Column("CLUSTER", "cluster"),
    Column("GPUS", "gpus", show=count),
    Column("UTILIZATION", "utilization", show=percent),
    Column("MEMORY", "memory", show=percent),
    Column("POWER", "powerWatts", show=watts),
    Column("IDLE SINCE", "idleSince"),
)


class Look:
    """The fleet at a moment, and what was seen of it before."""

    def __init__(self, client: "Stoker", cluster: str, limit: int) -> None:
        self._client = client
        self._cluster = cluster
        self._limit = limit
        self._seen: dict[str, deque[float | None]] = {}
        self.overview: Overview
        self.consumers: list[Consumer] = []
        self.total = 0

    def again(self) -> None:
        self.overview = self._client.fleet.overview(cluster=self._cluster)
        found = self._client.fleet.consumers(cluster=self._cluster)
        self.consumers, self.total = first_of(found, self._limit)
        current = {each.uid: each.utilization for each in self.consumers}
        current[""] = self.overview.total.utilization
        self._seen = {uid: self._seen.get(uid, deque(maxlen=HISTORY)) for uid in current}
        for uid, utilization in current.items():
            self._seen[uid].append(utilization)

    def spark(self, uid: str = "") -> str:
        """How busy a workload was, or all of them, since this began."""
        return sparkline(list(self._seen[uid]), low=0.0, high=1.0)

    def head(self) -> list[str]:
        total = self.overview.total
        busy = "use unknown" if total.utilization is None else f"{percent(total.utilization)} busy {self.spark()}"
        power = "" if total.power_watts is None else f", {watts(total.power_watts)}"
        lines = [
            f"{count(total.allocated_gpus)} of {total.gpus} GPUs allocated ({percent(total.allocation_rate)}), "
            f"{busy}{power}; "
            f"nodes: {total.idle_nodes} idle, {total.partial_nodes} partly used, {total.busy_nodes} full, "
            f"{f'{total.cpu_nodes} without GPUs, ' if total.cpu_nodes else ''}{total.faulty_nodes} faulty"
        ]
        lines += [f"{label(cluster)}: {readings(cluster)}" for cluster in self.overview.clusters]
        return lines

    def left_out(self) -> str:
        return left_out(len(self.consumers), self.total)

    def rows(self) -> list[list[str]]:
        return [
            [
                printable(each.workload_id),
                printable(each.namespace),
                printable(each.cluster),
                count(each.gpus),
                known(each.utilization, percent),
                self.spark(each.uid),
                known(each.memory, percent),
                known(each.power_watts, watts),
                "-" if each.idle_since is None else age(int((self.overview.at - each.idle_since).total_seconds())),
            ]
            for each in self.consumers
        ]


@click.command("top")
@click.option("--cluster", default="", metavar="NAME", help="Only of this cluster.")
@click.option("--limit", type=click.IntRange(0), default=30, show_default=True, help="Workloads; 0 for all.")
@click.option("--every", type=Duration("1s", "1h"), default="2s", show_default=True, help="Between two looks.")
@click.option("--once", is_flag=True, help="Look once, as in a pipe.")
@reaches_server
def command(cluster: str, limit: int, every: int, once: bool) -> None:
    """Watch who uses the GPUs, most GPUs first, until `q` or Ctrl-C; in a pipe, once.

    \b
    stoker top
    stoker top --cluster local --limit 10 --once
    """
    look = Look(connect(), cluster, limit)
    look.again()
    if not is_text():
        _warn(look)
        show_list(look.consumers, COLUMNS, beside_part(len(look.consumers), look.total))
    elif once or not sys.stdout.isatty():
        _warn(look)
        click.echo("\n".join(look.head()) + "\n")
        show_table(TITLES, look.rows())
    else:
        _watch(look, every)
        return
    if note := look.left_out():
        click.echo(note, err=True)


def _warn(look: Look) -> None:
    for line in warnings(look.overview):
        click.echo(line, err=True)


def _watch(look: Look, every: int) -> None:
    """Until `q` or Ctrl-C. A server that does not answer is asked again, and what was seen last stays."""
    from rich.console import Console
    from rich.live import Live

    from stoker.cli.keys import keyboard

    trouble = ""
    with (
        keyboard() as keys,
        Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live,
    ):
        live.update(framed(look, trouble), refresh=True)
        while not keys.leaves_within(every):
            trouble = renewed(look)
            live.update(framed(look, trouble), refresh=True)


def renewed(look: Look) -> str:
    """Look again; what is in the way, when that may pass."""
    from stoker.domain.errors import ErrorCode, StokerError

    try:
        look.again()
    except StokerError as error:
        if error.code not in {ErrorCode.BACKEND_DOWN, ErrorCode.TOO_MANY_REQUESTS, ErrorCode.INTERNAL}:
            raise
        return f"{printable(error.message)} This is of {look.overview.at:%H:%M:%S} UTC."
    return ""


def page(look: Look, trouble: str) -> "Group":
    """What is drawn: what is not as it seems, the fleet, and who uses it."""
    from rich.console import Group
    from rich.text import Text

    warned = [Text(line, style="bold red") for line in (*([trouble] if trouble else []), *warnings(look.overview))]
    head = [Text(line) for line in look.head()]
    return Group(*warned, *head, Text(""), Fitted(TITLES, look.rows(), SPARED))


def framed(look: Look, trouble: str) -> "Layout":
    """The whole screen: as much of the page as there is room for, and below it how to leave."""
    from rich.layout import Layout
    from rich.text import Text

    screen = Layout()
    footer = f"q or Ctrl-C leaves. {look.left_out()}".rstrip()
    screen.split_column(Layout(page(look, trouble)), Layout(Text(footer, style="dim"), size=1))
    return screen
