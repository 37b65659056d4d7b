"""Rows as a file for a spreadsheet or for a program that analyses data: CSV, or Parquet where the extra is there.

Both are written while the rows are read, part by part. The columns are the fields of the rows' struct, under the names
that they have in JSON.
"""

import asyncio
import csv
import importlib
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, get_args, get_type_hints

from msgspec import Struct, structs
from starlette.requests import Request

from stoker.api.csv_text import CSV, wants_csv
from stoker.api.streams import Stream
from stoker.domain.errors import bad_request
from stoker.domain.spreadsheet import defused

PARQUET = "application/vnd.apache.parquet"
ARROW_TYPES = {str: "string", float: "float64", int: "int64"}

Parts = AsyncIterator[Sequence[Struct]]


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


def wanted(request: Request, asked: Format | None) -> Format:
    """The form that is asked for by name, or else by the header Accept."""
    if asked is not None:
        return asked
    if request.headers.get("accept", "").split(";")[0].strip().lower() == PARQUET:
        return Format.PARQUET
    return Format.CSV if wants_csv(request) else Format.JSON


async def sheet(form: Format, rows: type[Struct], parts: Parts) -> Stream:
    """All rows in this form."""
    if form is Format.PARQUET:
        arrow, parquet = [await asyncio.to_thread(_arrow, name) for name in ("pyarrow", "pyarrow.parquet")]
        return Stream(_parquet(arrow, parquet, rows, parts), PARQUET)
    return Stream(_csv(rows, parts), CSV)


async def _csv(rows: type[Struct], parts: Parts) -> AsyncIterator[bytes]:
    yield _lines([[field.encode_name for field in structs.fields(rows)]])
    async for part in parts:
        yield await asyncio.to_thread(lambda rows=part: _lines(structs.astuple(row) for row in rows))


def _lines(rows: Iterable[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    return "" if value is None else defused(value) if isinstance(value, str) else value


class _Sink(io.RawIOBase):
    """What is written into it is taken out of it again, piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self._pieces.append(bytes(piece))
        self._written += len(self._pieces[-1])
        return len(self._pieces[-1])

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


async def _parquet(arrow: Any, parquet: Any, rows: type[Struct], parts: Parts) -> AsyncIterator[bytes]:
    hints = get_type_hints(rows)
    names = {field.name: field.encode_name for field in structs.fields(rows)}
    schema = arrow.schema([(wire, arrow.type_for_alias(_arrow_type(hints[name]))) for name, wire in names.items()])
    sink = _Sink()
    with parquet.ParquetWriter(sink, schema) as writer:
        async for part in parts:
            await asyncio.to_thread(_write, arrow, writer, schema, names, part)
            yield sink.take()
    yield sink.take()


def _write(arrow: Any, writer: Any, schema: Any, names: Mapping[str, str], part: Sequence[Struct]) -> None:
    columns = {wire: [getattr(row, name) for row in part] for name, wire in names.items()}
    writer.write_table(arrow.table(columns, schema))


def _arrow_type(hint: Any) -> str:
    """What a column holds, whether or not it may be empty."""
    alternatives = get_args(hint)
    return _arrow_type(alternatives[0]) if alternatives else ARROW_TYPES[hint]


def _arrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise bad_request(
            "format",
            "this server cannot write Parquet, which needs an extra.",
            hint="Install it on the server with: pip install 'stoker[parquet]'. Or ask for csv or json.",
        ) from None
