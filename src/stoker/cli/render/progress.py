"""Says on stderr what is being waited for: where a workload stands, or that an answer takes its time.

On a terminal it is one line that moves. Elsewhere a workload has one line per change, and an answer none.
"""

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from stoker.cli.untrusted import printable

if TYPE_CHECKING:
    from rich.status import Status

    from stoker.client.workload_shapes import WorkloadDetail


class Progress:
    """Closed, it leaves nothing on the terminal; `quiet`, it never says anything."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._said = ""
        self._status: Status | None = None
        self._moves = sys.stderr.isatty()

    def show(self, detail: "WorkloadDetail") -> None:
        if self._quiet or detail.ended:
            return
        if self._moves:
            self._move(standing(detail, place=True))
        elif self._said != (words := standing(detail)):
            self._said = words
            click.echo(words, err=True)

    def close(self) -> None:
        """Make way for what is printed from now on."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._moves = False
        self._quiet = self._quiet or sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def _move(self, words: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("")
            self._status.start()
        from rich.text import Text

        self._status.update(Text(words))


PATIENCE_SECONDS = 1.0


@contextlib.contextmanager
def waiting(words: str) -> Iterator[None]:
    """A bar that moves on a terminal once this has taken longer than a second."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(words, total=None)
    late = threading.Timer(PATIENCE_SECONDS, bar.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        bar.stop()


def standing(detail: "WorkloadDetail", *, place: bool = False) -> str:
    """`train-b2c4d: Pending (place 3): it waits for 8 GPUs.`"""
    where = f" (place {detail.scheduler_order})" if place and detail.scheduler_order else ""
    why = f": {printable(detail.message)}" if detail.message and detail.message != "every pod runs" else ""
    return f"{detail.workload_id}: {detail.phase}{where}{why}"
