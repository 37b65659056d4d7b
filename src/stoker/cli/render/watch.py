"""Watches a list: redrawn on a terminal, elsewhere a line for each changed workload."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from stoker.cli.render.output import Column, is_text, row_cells, show_json_line, visible_columns
from stoker.cli.render.table_fit import FittedTable

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.wire.management import WorkloadSummaryView
    from stoker.wire.pages import CountedPage

POLL_SECONDS = 2.0
DEBOUNCE_SECONDS = 0.2
RECONNECT_SECONDS = 5.0


def watch_list(
    client: "Stoker",
    look: "Callable[[], CountedPage[WorkloadSummaryView]]",
    columns: Sequence[Column],
    importance: Sequence[str],
) -> None:
    """Watch until Ctrl-C."""
    changed = threading.Event()
    threading.Thread(target=_receive_events, args=(client, changed), daemon=True).start()
    if sys.stdout.isatty() and is_text():
        _redraw_table(look, columns, importance, changed)
    else:
        _print_changes(look, columns, changed)


def _receive_events(client: "Stoker", changed: threading.Event) -> None:
    from stoker.client.transport.reconnect import reconnecting_events

    while True:
        with contextlib.suppress(Exception):  # the next refresh reports what is wrong
            for _ in reconnecting_events(client):
                changed.set()
        time.sleep(RECONNECT_SECONDS)


def _wait_for_change(changed: threading.Event) -> None:
    if changed.wait(POLL_SECONDS):
        time.sleep(DEBOUNCE_SECONDS)  # events come in bursts
        changed.clear()


def _redraw_table(
    look: "Callable[[], CountedPage[WorkloadSummaryView]]",
    columns: Sequence[Column],
    importance: Sequence[str],
    changed: threading.Event,
) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False, screen=True) as live:
        while True:
            rows = [row_cells(item, columns) for item in look().items]
            live.update(
                FittedTable([column.title for column in visible_columns(columns)], rows, importance), refresh=True
            )
            _wait_for_change(changed)


def _print_changes(
    look: "Callable[[], CountedPage[WorkloadSummaryView]]", columns: Sequence[Column], changed: threading.Event
) -> None:
    """Print a line per workload at first, then one per change of its phase, queue position or message."""
    known: dict[str, tuple[str, int, str]] = {}
    if is_text():
        click.echo("  ".join(column.title for column in visible_columns(columns)))
    while True:
        for item in reversed(look().items):
            now = (item.phase, item.dispatch_count, item.message)
            if known.get(item.workload_id) != now:
                known[item.workload_id] = now
                show_json_line(item) if not is_text() else click.echo("  ".join(row_cells(item, columns)))
        sys.stdout.flush()
        _wait_for_change(changed)
