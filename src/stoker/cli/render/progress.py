"""Shows progress on stderr: the state of a workload, or a spinner during a slow request.

On a terminal it is one line that is redrawn. Elsewhere each change of a workload is a line, and there is no spinner.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stoker.cli.render.sanitize import sanitize_line

if TYPE_CHECKING:
    from rich.status import Status

    from stoker.wire.management import WorkloadDetailView


class WorkloadProgress:
    """Removed from the terminal when it is closed; prints nothing if `quiet`."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._last_line = ""
        self._status: Status | None = None
        self._is_interactive = sys.stderr.isatty()

    def show(self, detail: "WorkloadDetailView") -> None:
        if self._quiet or detail.is_finished:
            return
        if self._is_interactive:
            self._update_spinner(format_status(detail, place=True))
        elif self._last_line != (words := format_status(detail)):
            self._last_line = words
            click.echo(words, err=True)

    def close(self) -> None:
        """Clear the line for other output."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._is_interactive = False
        self._quiet = self._quiet or sys.stderr.isatty()

    def __enter__(self) -> "WorkloadProgress":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def _update_spinner(self, words: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("")
            self._status.start()
        from rich.text import Text

        self._status.update(Text(words))


SPINNER_DELAY_SECONDS = 1.0


@contextlib.contextmanager
def show_spinner(words: str) -> Iterator[None]:
    """Show a spinner on a terminal once the block has taken longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(words, total=None)
    late = threading.Timer(SPINNER_DELAY_SECONDS, bar.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        bar.stop()


def format_status(detail: "WorkloadDetailView", *, place: bool = False) -> str:
    """`train-b2c4d: Pending (place 3): it waits for 8 GPUs.`"""
    where = f" (place {detail.scheduler_order})" if place and detail.scheduler_order else ""
    why = f": {sanitize_line(detail.message)}" if detail.message and detail.message != "every pod runs" else ""
    return f"{detail.workload_id}: {detail.phase}{where}{why}"
