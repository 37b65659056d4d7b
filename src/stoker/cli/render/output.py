"""Prints the result of a command in the requested format. JSON and YAML have the structure of the API."""

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

from stoker.cli.core.options import OUTPUT_KEY
from stoker.cli.render.sanitize import escape_json, sanitize_csv_cell, sanitize_line
from stoker.cli.render.table_fit import FittedTable

if TYPE_CHECKING:
    from stoker.client.resources.operations import PagedItems

T = TypeVar("T")


class Column(Struct, frozen=True):
    """A column of a table. `path` is the place of the value in the JSON of the API; `wide` columns are shown only with
    `-o wide`. `formatter` formats a value, `row_formatter` the whole row; `empty` is shown if there is no value."""

    title: str
    path: str
    wide: bool = False
    formatter: Callable[[Any], str] | None = None
    empty: str = "-"
    row_formatter: Callable[[Any], str] | None = None


def selected_output() -> str:
    return click.get_current_context().meta.get(OUTPUT_KEY) or "table"


def is_text() -> bool:
    """Whether the output is for people."""
    return selected_output() in {"table", "wide"}


def print_message(text: str) -> None:
    """Print a message; on stderr if stdout is for data."""
    click.echo(text, err=not is_text())


def show_list(
    items: Iterable[object],
    columns: Sequence[Column],
    beside: Mapping[str, object] | None = None,
    importance: Sequence[str] = (),
) -> None:
    """Print every item on a line; `beside` are further fields of the API's structure, `importance` the titles of
    columns in the order in which a narrow terminal keeps them."""
    rows = [_to_builtins(item) for item in items]
    output = selected_output()
    if output in {"json", "yaml"}:
        _print_dump({"items": rows, **({"total": len(rows), "next": None} if beside is None else beside)}, output)
    elif output == "csv":
        click.echo(_to_csv(rows, columns), nl=False)
    else:
        shown = visible_columns(columns)
        cells = [[_table_cell(row, column) for column in shown] for row in rows]
        show_table([column.title for column in shown], cells, importance)
        if not rows:
            click.echo("Nothing found.", err=True)


def show_page(found: "PagedItems[Any]", limit: int, columns: Sequence[Column], importance: Sequence[str] = ()) -> None:
    """Print the first items of a list, or all if the limit is 0, and a note about omitted items."""
    shown, total = take_first(found, limit)
    show_list(shown, columns, page_fields(len(shown), total), importance)
    if note := truncation_note(len(shown), total):
        click.echo(note, err=True)


def take_first(found: "PagedItems[T]", limit: int) -> tuple[list[T], int]:
    """The first items of a list, or all if the limit is 0, and their total."""
    shown = list(islice(found, limit or None))
    return shown, len(shown) + sum(1 for _ in found) if found.total is None else found.total


def page_fields(shown: int, total: int) -> dict[str, object]:
    """The fields of the API's structure besides the items."""
    return {"total": total, "next": shown if shown < total else None}


def truncation_note(shown: int, total: int) -> str:
    """A note about omitted items; empty if there are none."""
    return f"These are {shown} of {total}; --limit 0 shows all." if shown < total else ""


def show_one(item: object, columns: Sequence[Column]) -> None:
    """Print one item, one field per line."""
    row = _to_builtins(item)
    output = selected_output()
    if output in {"json", "yaml"}:
        _print_dump(row, output)
    elif output == "csv":
        click.echo(_to_csv([row], columns), nl=False)
    else:
        width = max(len(column.title) for column in columns)
        for column in columns:
            click.echo(f"{column.title:{width}}  {_table_cell(row, column)}".rstrip())


def show_result(item: object, columns: Sequence[Column], sentence: str) -> None:
    """Print the result of a change: a sentence for people, the object for programs."""
    if is_text():
        print_message(sentence)
    else:
        show_one(item, columns)


def show_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]], importance: Sequence[str] = (), folded: str = ""
) -> None:
    """A table: the columns that have room on the terminal or in $COLUMNS; in any other pipe, and with `-o wide`, all of
    them."""
    table = FittedTable(titles, rows, importance, folded=folded)
    is_terminal = sys.stdout.isatty()
    width = _table_width(is_terminal) if selected_output() != "wide" else None
    head, *rest = table.render_lines(width)
    click.echo(click.style(head, bold=True) if is_terminal and not os.environ.get("NO_COLOR") else head)
    for line in rest:
        click.echo(line)
    if width is not None and (missing := table.hidden_columns(width)):
        click.echo(f"Too narrow for {', '.join(missing)}: a wider window shows more.", err=True)


def _table_width(is_terminal: bool) -> int | None:
    """How wide a table may be; None for any width."""
    if is_terminal or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def show_json_line(item: object) -> None:
    """Print one item of a stream as a line of JSON."""
    click.echo(escape_json(msgspec.json.encode(_with_iso_times(_to_builtins(item))).decode()))


def visible_columns(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if selected_output() == "wide" or not column.wide]


def row_cells(item: object, columns: Sequence[Column]) -> list[str]:
    """The cells of one row."""
    row = _to_builtins(item)
    return [_table_cell(row, column) for column in visible_columns(columns)]


def _to_csv(rows: Sequence[Any], columns: Sequence[Column]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.path for column in columns])
    writer.writerows([[_csv_value(_value_at(row, column.path)) for column in columns] for row in rows])
    return text.getvalue()


def _print_dump(value: object, output: str) -> None:
    click.echo(dump_text(value, output), nl=False)


def dump_text(value: object, output: str) -> str:
    """Any value as JSON or YAML in the API's structure."""
    plain = _with_iso_times(_to_builtins(value))
    if output == "json":
        return escape_json(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode()) + "\n"
    import yaml

    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def _to_builtins(item: object) -> Any:
    return msgspec.to_builtins(item, builtin_types=(datetime,))


def _with_iso_times(value: object) -> object:
    """The value with times in the format of the API."""
    match value:
        case dict():
            return {name: _with_iso_times(each) for name, each in value.items()}
        case list() | tuple():
            return [_with_iso_times(each) for each in value]
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case _:
            return value


def _value_at(row: Any, path: str) -> object:
    for name in path.split("."):
        row = row.get(name) if isinstance(row, dict) else None
    return row


def _csv_value(value: object) -> object:
    plain = _with_iso_times(value)
    match plain:
        case None:
            return ""
        case bool():
            return "true" if plain else "false"
        case list():
            return sanitize_csv_cell(",".join(map(str, plain)))
        case dict():
            return sanitize_csv_cell(",".join(f"{name}={each}" for name, each in plain.items()))
        case str():
            return sanitize_csv_cell(plain)
        case _:
            return plain


def _table_cell(row: Any, column: Column) -> str:
    """A value as text for a cell."""
    value = _value_at(row, column.path)
    match value:
        case _ if column.row_formatter is not None:
            text = column.row_formatter(row)
        case None | "" | [] | ():
            text = column.empty
        case _ if column.formatter is not None:
            text = column.formatter(value)
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
    return sanitize_line(text)
