"""Tables on a screen of any width: a column is left out before a value is cut."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stoker.cli.output import GAP, drawn, least_widths

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

Cells = Sequence[Sequence[str]]


class Fitted:
    """Draws what there is room for. Columns of `spared` are left out, the first of them first; of the column without a
    title, the ends of its cells are shown as far as there is room beside the others."""

    def __init__(self, titles: Sequence[str], rows: Cells, spared: Sequence[str]) -> None:
        self._titles = titles
        self._rows = rows
        self._spared = spared

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Table]":
        yield drawn(*fitted(self._titles, self._rows, self._spared, options.max_width))


def fitted(titles: Sequence[str], rows: Cells, spared: Sequence[str], width: int) -> tuple[Sequence[str], Cells]:
    """Titles and rows of the columns that have room."""
    widths = least_widths(titles, rows)
    shown = [place for place, title in enumerate(titles) if title]
    leaving = [titles.index(title) for title in spared if title in titles]
    while (room := width - sum(widths[place] + GAP for place in shown)) < -GAP and leaving:
        shown.remove(leaving.pop(0))
    if room > 0 and "" in titles:
        last = titles.index("")
        rows = [[*row[:last], row[last][-room:], *row[last + 1 :]] for row in rows]
        shown = sorted([*shown, last])
    return [titles[place] for place in shown], [[row[place] for place in shown] for row in rows]
