"""A list that stays: drawn anew on a terminal, elsewhere a line for each workload that has changed."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.fitting import Fitted
from stoker.cli.output import Column, cells, is_text, show_json_line, shown_columns

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.shapes import CountedPage
    from stoker.client.workload_shapes import Workload

LOOK_SECONDS = 2.0
SETTLE_SECONDS = 0.2
PAUSE_SECONDS = 5.0
SPARED = ("KIND", "REPLICAS", "USER", "WORKSPACE", "MESSAGE")
"""What a narrow screen goes without, the first of them first."""


def watch(client: "Stoker", look: "Callable[[], CountedPage[Workload]]", columns: Sequence[Column]) -> None:
    """Until Ctrl-C."""
    changed = threading.Event()
    threading.Thread(target=_listen, args=(client, changed), daemon=True).start()
    if sys.stdout.isatty() and is_text():
        _redraw(look, columns, changed)
    else:
        _tell_changes(look, columns, changed)


def _listen(client: "Stoker", changed: threading.Event) -> None:
    from stoker.client.patience import lasting_events

    while True:
        with contextlib.suppress(Exception):  # the looks go on without it, and say what is wrong
            for _ in lasting_events(client):
                changed.set()
        time.sleep(PAUSE_SECONDS)


def _until_changed(changed: threading.Event) -> None:
    if changed.wait(LOOK_SECONDS):
        time.sleep(SETTLE_SECONDS)  # changes come in bursts
        changed.clear()


def _redraw(look: "Callable[[], CountedPage[Workload]]", columns: Sequence[Column], changed: threading.Event) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        while True:
            rows = [cells(item, columns) for item in look().items]
            live.update(Fitted([column.title for column in shown_columns(columns)], rows, SPARED), refresh=True)
            _until_changed(changed)


def _tell_changes(
    look: "Callable[[], CountedPage[Workload]]", columns: Sequence[Column], changed: threading.Event
) -> None:
    """A line per workload at first, then one per change of its phase, place or message."""
    known: dict[str, tuple[str, int, str]] = {}
    if is_text():
        click.echo("  ".join(column.title for column in shown_columns(columns)))
    while True:
        for item in reversed(look().items):
            now = (item.phase, item.dispatch_count, item.message)
            if known.get(item.workload_id) != now:
                known[item.workload_id] = now
                show_json_line(item) if not is_text() else click.echo("  ".join(cells(item, columns)))
        sys.stdout.flush()
        _until_changed(changed)
