"""Prints what a verb found, in the form that was asked for. JSON and YAML are the API's own shape."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from msgspec import Struct

from stoker.cli.options import OUTPUT
from stoker.cli.untrusted import cell, json_text, printable

if TYPE_CHECKING:
    from rich.table import Table

    from stoker.client.operation import Items

T = TypeVar("T")
SENTENCE = 24
"""A column of sentences is not drawn narrower than this."""
GAP = 2
"""Blanks between two columns."""


class Column(Struct, frozen=True):
    """`path` is where the value is in the API's shape; `wide` columns are left out of the narrow table. `show` says a
    value that is there as a person reads it, `empty` what it means that there is none."""

    title: str
    path: str
    wide: bool = False
    show: Callable[[Any], str] | None = None
    empty: str = "-"


def chosen_output() -> str:
    return click.get_current_context().meta.get(OUTPUT) or "table"


def is_text() -> bool:
    """Whether a person reads this."""
    return chosen_output() in {"table", "wide"}


def say(text: str) -> None:
    """A sentence for a person; out of the way when stdout is for data."""
    click.echo(text, err=not is_text())


def show_list(items: Iterable[object], columns: Sequence[Column], beside: Mapping[str, object] | None = None) -> None:
    """Every item, one a line; `beside` is what the API's shape has beside the items."""
    rows = [_builtins(item) for item in items]
    output = chosen_output()
    if output in {"json", "yaml"}:
        _dump({"items": rows, **({"total": len(rows), "next": None} if beside is None else beside)}, output)
    elif output == "csv":
        click.echo(_csv(rows, columns), nl=False)
    else:
        shown = shown_columns(columns)
        show_table([column.title for column in shown], [[_cell(row, column) for column in shown] for row in rows])
        if not rows:
            click.echo("Nothing found.", err=True)


def show_first(found: "Items[Any]", limit: int, columns: Sequence[Column]) -> None:
    """So many of a list, or all of it when the limit is 0; what is left out is said."""
    shown, total = first_of(found, limit)
    show_list(shown, columns, beside_part(len(shown), total))
    if note := left_out(len(shown), total):
        click.echo(note, err=True)


def first_of(found: "Items[T]", limit: int) -> tuple[list[T], int]:
    """So many of a list, or all of it when the limit is 0, and how many there are."""
    shown = list(islice(found, limit or None))
    return shown, len(shown) + sum(1 for _ in found) if found.total is None else found.total


def beside_part(shown: int, total: int) -> dict[str, object]:
    """What the API's shape has beside the first items of a list."""
    return {"total": total, "next": shown if shown < total else None}


def left_out(shown: int, total: int) -> str:
    """A sentence on the rest of a list, if there is one."""
    return f"These are {shown} of {total}; --limit 0 shows all." if shown < total else ""


def show_one(item: object, columns: Sequence[Column]) -> None:
    """One item: a field a line."""
    row = _builtins(item)
    output = chosen_output()
    if output in {"json", "yaml"}:
        _dump(row, output)
    elif output == "csv":
        click.echo(_csv([row], columns), nl=False)
    else:
        width = max(len(column.title) for column in columns)
        for column in columns:
            click.echo(f"{column.title:{width}}  {_cell(row, column)}".rstrip())


def show_done(item: object, columns: Sequence[Column], sentence: str) -> None:
    """What a change led to: a sentence for a person, the thing itself for a program."""
    if is_text():
        say(sentence)
    else:
        show_one(item, columns)


def show_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table: drawn by rich on a terminal, plain columns in a pipe, without colours, or where it would not fit."""
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR") and _fits(titles, rows):
        _rich_table(titles, rows)
        return
    widths = _widths(titles, rows)
    for row in (titles, *rows):
        click.echo("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def show_json_line(item: object) -> None:
    """One item of something that goes on: JSON on a line of its own."""
    click.echo(json_text(msgspec.json.encode(_plain(_builtins(item))).decode()))


def shown_columns(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if chosen_output() == "wide" or not column.wide]


def cells(item: object, columns: Sequence[Column]) -> list[str]:
    """The cells of one row."""
    row = _builtins(item)
    return [_cell(row, column) for column in shown_columns(columns)]


def _rich_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console

    Console(highlight=False).print(drawn(titles, rows))


def _fits(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """No word has to be broken. Where one would be, the terminal wraps whole lines better than a table its cells."""
    least = least_widths(titles, rows)
    return sum(least) + GAP * (len(least) - 1) <= shutil.get_terminal_size().columns


def least_widths(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """How narrow each column may be drawn."""
    widths, sentences = _widths(titles, rows), _sentences(titles, rows)
    return [min(width, SENTENCE) if each else width for width, each in zip(widths, sentences, strict=True)]


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(titles, *rows, strict=True)]


def _sentences(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold more than one word somewhere."""
    return [any(" " in each for each in column) for _, *column in zip(titles, *rows, strict=True)]


def drawn(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> "Table":
    """A table as rich draws it; only sentences are wrapped."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title, sentences in zip(titles, _sentences(titles, rows), strict=True):
        table.add_column(title, overflow="fold" if sentences else "ellipsis", no_wrap=not sentences)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _csv(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.path for column in columns])
    writer.writerows([[_raw(_at(row, column.path)) for column in columns] for row in rows])
    return text.getvalue()


def _dump(value: object, output: str) -> None:
    click.echo(dumped(value, output), nl=False)


def dumped(value: object, output: str) -> str:
    """Anything as JSON or YAML, in the API's own shape."""
    plain = _plain(_builtins(value))
    if output == "json":
        return json_text(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()) + "\n"
    import yaml

    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _builtins(item: object) -> Any:
    return msgspec.to_builtins(item, builtin_types=(datetime,))


def _plain(value: object) -> object:
    """With times as the API writes them."""
    match value:
        case dict():
            return {name: _plain(each) for name, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case _:
            return value


def _at(row: Any, path: str) -> object:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _raw(value: object) -> object:
    plain = _plain(value)
    match plain:
        case None:
            return ""
        case bool():
            return "true" if plain else "false"
        case list():
            return cell(",".join(map(str, plain)))
        case dict():
            return cell(",".join(f"{name}={each}" for name, each in plain.items()))
        case str():
            return cell(plain)
        case _:
            return plain


def _cell(row: Any, column: Column) -> str:
    """A value as a person reads it."""
    value = _at(row, column.path)
    match value:
        case None | "" | [] | ():
            text = column.empty
        case _ if column.show is not None:
            text = column.show(value)
        case bool():
            text = "yes" if value else "no"
        case datetime():
            text = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
        case list() | tuple():
            text = ", ".join(map(str, value))
        case dict():
            text = ", ".join(f"{name}={each}" for name, each in value.items()) or "-"
        case _:
            text = str(value)
    return printable(text)
