"""Stays with a workload: its progress on stderr, what it prints on stdout, and what to say when the user leaves."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stoker.cli.main import INTERRUPTED
from stoker.cli.options import typed
from stoker.cli.output import is_text, show_json_line
from stoker.cli.progress import Progress, standing
from stoker.cli.untrusted import log_line

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.follow import LogChoice, Output
    from stoker.client.workload_shapes import WorkloadDetail


@contextlib.contextmanager
def goes_on(workload_id: str) -> Iterator[None]:
    """Ctrl-C ends the watching, not the workload; say so."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"{_newline()}{workload_id} goes on. To stop it: {typed('stop', workload_id)}", err=True)
        click.get_current_context().exit(INTERRUPTED)


class Printer:
    """Lines as they are: nothing but the line, unless the time or the pod is asked for. `plain` is never JSON.

    A terminal gets of each line what cannot drive it.
    """

    def __init__(self, *, timestamps: bool = False, pods: bool = False, plain: bool = False) -> None:
        self._text = plain or is_text()
        self._timestamps = timestamps
        self._pods = pods
        self._stdout = sys.stdout.buffer
        self._line = log_line if sys.stdout.isatty() else str

    def show(self, output: "Output") -> None:
        if not self._text:
            show_json_line(
                {"pod": output.pod, "attempt": output.attempt, "at": _when(output), "line": output.line.text}
            )
            return
        pod = f"{output.pod} | " if self._pods else ""
        at = f"{_when(output)} " if self._timestamps else ""
        self._stdout.write(f"{pod}{at}{self._line(output.line.text)}\n".encode("utf-8", "replace"))
        self._stdout.flush()


def attach(
    client: "Stoker", workload_id: str, logs: "LogChoice", printer: Printer, progress: Progress
) -> "WorkloadDetail":
    """Print what a workload prints until it has ended."""
    from stoker.client.follow import Output

    detail: WorkloadDetail | None = None
    with goes_on(workload_id), progress:
        for each in client.follow(workload_id, logs):
            if isinstance(each, Output):
                progress.close()
                printer.show(each)
            else:
                detail = each
                progress.show(each)
    if detail is None:
        raise LookupError(workload_id)
    return detail


def stay(
    client: "Stoker",
    workload_id: str,
    reached: "Callable[[WorkloadDetail], bool]" = lambda detail: detail.ended,
    *,
    deadline: float | None = None,
) -> "WorkloadDetail":
    """Watch a workload until it is where it should be, or has ended."""
    with goes_on(workload_id), Progress() as progress:
        for detail in client.watch(workload_id, deadline=deadline):
            if detail.ended or reached(detail):
                return detail
            progress.show(detail)
    raise LookupError(workload_id)


def say_end(detail: "WorkloadDetail", *, quiet: bool = False) -> None:
    """How it ended, where that is not a plain success."""
    if detail.phase != "Succeeded" and not quiet:
        click.echo(standing(detail), err=True)


def _newline() -> str:
    """After the ^C that a terminal shows."""
    return "\n" if sys.stderr.isatty() else ""


def _when(output: "Output") -> str:
    at = datetime.fromtimestamp(output.line.at / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
