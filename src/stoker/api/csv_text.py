"""Answers as CSV, for those who ask for nothing else."""

import csv
import io
from collections.abc import Iterable, Sequence

from starlette.requests import Request
from starlette.responses import Response

CSV = "text/csv"


def wants_csv(request: Request) -> bool:
    """Whether CSV is asked for, and JSON is not asked for as much."""
    weights = {"text/csv": 0.0, "application/json": 0.0}
    for part in request.headers.get("accept", "").split(","):
        media_type, *parameters = (each.strip().lower() for each in part.split(";"))
        if media_type in weights:
            weights[media_type] = _weight(parameters)
    return weights["text/csv"] > weights["application/json"]


def csv_response(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Response:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(head)
    writer.writerows(rows)
    return Response(text.getvalue(), media_type=CSV)


def _weight(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
