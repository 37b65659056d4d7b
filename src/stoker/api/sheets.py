"""Rows as a file for a spreadsheet or for a program that analyses data: CSV, or Parquet where the extra is there.

Both are written while the rows are read, part by part. The columns are the fields of the rows' struct, under the names
that they have in JSON.
"""

import asyncio
import csv
import importlib
import io
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

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


def sheet(form: Format, rows: type[Struct], parts: Parts) -> Stream:
    """All rows in this form."""
    if form is Format.PARQUET:
        return Stream(_parquet(_arrow("pyarrow"), _arrow("pyarrow.parquet"), rows, parts), PARQUET)
    return Stream(_csv(rows, parts), CSV)


async def _csv(rows: type[Struct], parts: Parts) -> AsyncIterator[bytes]:
    yield _lines([[field.encode_name for field in structs.fields(rows)]])
    async for part in parts:
        yield await asyncio.to_thread(_lines, [[_cell(value) for value in structs.astuple(row)] for row in part])


def _lines(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _cell(value: object) -> object:
    return "" if value is None else defused(value) if isinstance(value, str) else value


async def _parquet(arrow: Any, parquet: Any, rows: type[Struct], parts: Parts) -> AsyncIterator[bytes]:
    hints = get_type_hints(rows, include_extras=True)
    names = {field.name: field.encode_name for field in structs.fields(rows)}
    schema = arrow.schema([(wire, arrow.type_for_alias(_arrow_type(hints[name]))) for name, wire in names.items()])
    sink = io.BytesIO()
    written = 0
    with parquet.ParquetWriter(sink, schema) as writer:
        async for part in parts:
            columns = {wire: [getattr(row, name) for row in part] for name, wire in names.items()}
            await asyncio.to_thread(writer.write_table, arrow.table(columns, schema))
            yield sink.getvalue()[written:]
            written = sink.tell()
    yield sink.getvalue()[written:]


def _arrow_type(hint: Any) -> str:
    """What a column holds; each may be empty."""
    if get_origin(hint) is Annotated:
        return _arrow_type(get_args(hint)[0])
    if isinstance(hint, UnionType):
        return _arrow_type(next(each for each in get_args(hint) if each is not type(None)))
    return ARROW_TYPES[hint]


def _arrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise bad_request(
            "format",
            "this server cannot write Parquet, which needs an extra.",
            hint="Install it on the server with: pip install 'stoker[parquet]'. Or ask for csv or json.",
        ) from None
