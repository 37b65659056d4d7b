"""Attaches to a workload: progress on stderr, its output on stdout, and a message when the user detaches."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from stoker.cli.core.options import command_line
from stoker.cli.main import INTERRUPTED_EXIT_CODE
from stoker.cli.render.log_printer import LogPrinter
from stoker.cli.render.progress import WorkloadProgress, format_status

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.follow import LogSelection
    from stoker.wire.management import WorkloadDetailView


@contextlib.contextmanager
def detach_on_interrupt(workload_id: str) -> Iterator[None]:
    """Ctrl-C detaches from the workload without stopping it, and prints how to stop it."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"{_newline()}{workload_id} goes on. To stop it: {command_line('stop', workload_id)}", err=True)
        click.get_current_context().exit(INTERRUPTED_EXIT_CODE)


def follow_workload(
    client: "Stoker", workload_id: str, logs: "LogSelection", printer: LogPrinter, progress: WorkloadProgress
) -> "WorkloadDetailView":
    """Print the logs of a workload until it has ended."""
    from stoker.client.follow import LogOutput

    detail: WorkloadDetailView | None = None
    with detach_on_interrupt(workload_id), progress:
        for each in client.follow(workload_id, logs):
            if isinstance(each, LogOutput):
                progress.close()
                printer.print_line(each)
            else:
                detail = each
                progress.show(each)
    if detail is None:
        raise LookupError(workload_id)
    return detail


def wait_for_workload(
    client: "Stoker",
    workload_id: str,
    reached: "Callable[[WorkloadDetailView], bool]" = lambda detail: detail.is_finished,
    *,
    deadline: float | None = None,
) -> "WorkloadDetailView":
    """Wait until a workload has reached the requested state or has ended."""
    with detach_on_interrupt(workload_id), WorkloadProgress() as progress:
        for detail in client.watch(workload_id, deadline=deadline):
            if detail.is_finished or reached(detail):
                return detail
            progress.show(detail)
    raise LookupError(workload_id)


def report_end(detail: "WorkloadDetailView", *, quiet: bool = False) -> None:
    """Print how a workload ended, unless it succeeded."""
    if detail.phase != "Succeeded" and not quiet:
        click.echo(format_status(detail), err=True)


def _newline() -> str:
    """Start a new line after the ^C that a terminal echoes."""
    return "\n" if sys.stderr.isatty() else ""
