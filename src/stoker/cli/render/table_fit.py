"""Fits tables to the width of a screen: columns are omitted before values are cut, and a row is one line."""

import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.text import Text

Cells = Sequence[Sequence[str]]
COLUMN_GAP = 2
"""Spaces between two columns."""
MIN_FOLDED_WIDTH = 24
"""The minimum width of a folded column."""


class FittedTable:
    """A table that omits columns that do not fit.

    Columns are added in the order of `importance`, then from the left, while they fit completely; the first column is
    always shown. An `elastic` column needs only the width of its title, and its cells are cut at the front. A `folded`
    column contains sentences: it is never omitted and wraps to several lines.
    """

    def __init__(
        self, titles: Sequence[str], rows: Cells, importance: Sequence[str] = (), *, elastic: str = "", folded: str = ""
    ) -> None:
        self._titles = titles
        self._rows = rows
        named = [titles.index(title) for title in importance if title in titles]
        self._order = [*named, *(place for place in range(len(titles)) if place not in named)]
        self._elastic = titles.index(elastic) if elastic in titles else None
        self._folded = titles.index(folded) if folded in titles else None
        self._widths = [max(map(display_width, column)) for column in zip(titles, *rows, strict=True)]

    def render_lines(self, width: int | None = None) -> list[str]:
        """The lines of the table, titles first; all columns if no width is given."""
        widths = self._visible_widths(width)
        return [line for row in (self._titles, *self._rows) for line in self._render_row(row, widths)]

    def hidden_columns(self, width: int) -> list[str]:
        """The titles of the omitted columns."""
        shown = self._visible_widths(width)
        return [title for place, title in enumerate(self._titles) if place not in shown]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[Text]":
        from rich.text import Text

        head, *rest = self.render_lines(options.max_width)
        yield Text(head, style="bold", no_wrap=True)
        for line in rest:
            yield Text(line, no_wrap=True)

    def _visible_widths(self, width: int | None) -> dict[int, int]:
        """The shown columns from the left, with their widths."""
        if width is None:
            return dict(enumerate(self._widths))
        least = dict(enumerate(self._widths))
        if self._folded is not None:
            least[self._folded] = min(least[self._folded], MIN_FOLDED_WIDTH)
        if self._elastic is not None:
            least[self._elastic] = display_width(self._titles[self._elastic])
        first, *others = (place for place in self._order if place != self._folded)
        order = [place for place in (first, self._folded, *others) if place is not None]
        room = width + COLUMN_GAP
        shown: dict[int, int] = {}
        for place in order:
            if place in {first, self._folded} or least[place] + COLUMN_GAP <= room:
                shown[place] = least[place]
                room -= least[place] + COLUMN_GAP
        for place in (self._folded, self._elastic):
            if place in shown and room > 0:
                grown = min(self._widths[place], shown[place] + room)
                room -= grown - shown[place]
                shown[place] = grown
        return dict(sorted(shown.items()))

    def _render_row(self, row: Sequence[str], widths: dict[int, int]) -> Iterator[str]:
        cells = {place: row[place] for place in widths}
        if self._elastic in cells and row is not self._titles:
            cells[self._elastic] = cells[self._elastic][-widths[self._elastic] :]
        more: list[str] = []
        if self._folded in cells and display_width(cells[self._folded]) > widths[self._folded]:
            first, *more = textwrap.wrap(cells[self._folded], widths[self._folded], break_long_words=False)
            cells[self._folded] = first
        yield _join_cells(cells, widths)
        for text in more:
            yield _join_cells({place: text if place == self._folded else "" for place in widths}, widths)


def display_width(text: str) -> int:
    """The number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(each) for each in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _join_cells(cells: dict[int, str], widths: dict[int, int]) -> str:
    return (
        (" " * COLUMN_GAP)
        .join(cells[place] + " " * (width - display_width(cells[place])) for place, width in widths.items())
        .rstrip()
    )
