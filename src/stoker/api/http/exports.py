"""Exports of rows as CSV, or as Parquet if the extra is installed.

Rows are written in batches while they are read. The columns are the fields of the row struct, under their JSON names.
"""

import asyncio
import csv
import importlib
import io
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, get_args, get_type_hints

from msgspec import Struct, structs
from starlette.responses import Response

from stoker.api.http.negotiation import CSV_MEDIA_TYPE, PARQUET_MEDIA_TYPE, ExportFormat
from stoker.api.http.streaming import Stream
from stoker.domain.errors import bad_request
from stoker.domain.spreadsheet import escape_formula

ARROW_TYPES = {str: "string", datetime: "string", float: "float64", int: "int64"}

RowBatches = AsyncIterator[Sequence[Struct]]


async def export_rows(file_format: ExportFormat, row_type: type[Struct], batches: RowBatches) -> Stream:
    if file_format is ExportFormat.PARQUET:
        arrow, parquet = [await asyncio.to_thread(_import_arrow, name) for name in ("pyarrow", "pyarrow.parquet")]
        return Stream(_parquet_stream(arrow, parquet, row_type, batches), PARQUET_MEDIA_TYPE)
    return Stream(_csv_stream(row_type, batches), CSV_MEDIA_TYPE)


async def _csv_stream(row_type: type[Struct], batches: RowBatches) -> AsyncIterator[bytes]:
    yield encode_csv([[field.encode_name for field in structs.fields(row_type)]])
    async for batch in batches:
        yield await asyncio.to_thread(lambda rows=batch: encode_csv(structs.astuple(row) for row in rows))


class _ByteSink(io.RawIOBase):
    """A file object whose written bytes can be taken out again."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._chunks.append(bytes(data))
        self._written += len(self._chunks[-1])
        return len(self._chunks[-1])

    def tell(self) -> int:
        return self._written

    def drain(self) -> bytes:
        data = b"".join(self._chunks)
        self._chunks.clear()
        return data


async def _parquet_stream(
    arrow: Any, parquet: Any, row_type: type[Struct], batches: RowBatches
) -> AsyncIterator[bytes]:
    hints = get_type_hints(row_type)
    names = {field.name: field.encode_name for field in structs.fields(row_type)}
    schema = arrow.schema([(wire, arrow.type_for_alias(_arrow_type(hints[name]))) for name, wire in names.items()])
    sink = _ByteSink()
    with parquet.ParquetWriter(sink, schema) as writer:
        async for batch in batches:
            await asyncio.to_thread(_write_batch, arrow, writer, schema, names, batch)
            yield sink.drain()
    yield sink.drain()


def _write_batch(arrow: Any, writer: Any, schema: Any, names: Mapping[str, str], batch: Sequence[Struct]) -> None:
    columns = {wire: [_arrow_value(getattr(row, name)) for row in batch] for name, wire in names.items()}
    writer.write_table(arrow.table(columns, schema))


def _arrow_value(value: object) -> object:
    """Times are text, as they are in JSON."""
    return str(value) if isinstance(value, datetime) else value


def _arrow_type(hint: Any) -> str:
    """The Arrow type of a column, whether or not it is nullable."""
    alternatives = get_args(hint)
    return _arrow_type(alternatives[0]) if alternatives else ARROW_TYPES[hint]


def _import_arrow(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        raise bad_request(
            "format",
            "this server cannot write Parquet: the extra is not installed.",
            hint="Install it on the server with: pip install 'stoker[parquet]'. Or request csv or json.",
        ) from None


def csv_response(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Response:
    return Response(encode_csv((head, *rows)), media_type=CSV_MEDIA_TYPE)


def encode_csv(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as CSV. All CSV is encoded here, so that no spreadsheet evaluates a text as a formula."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows([_csv_cell(value) for value in row] for row in rows)
    return text.getvalue().encode()


def _csv_cell(value: object) -> object:
    return "" if value is None else escape_formula(value) if isinstance(value, str) else value
