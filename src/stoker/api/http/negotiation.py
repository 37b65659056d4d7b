"""Content negotiation: which media type a request accepts. Every Accept header is parsed here."""

from enum import StrEnum

from starlette.requests import Request

JSON_MEDIA_TYPE = "application/json"
CSV_MEDIA_TYPE = "text/csv"
PARQUET_MEDIA_TYPE = "application/vnd.apache.parquet"
HTML_MEDIA_TYPE = "text/html"


class ExportFormat(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


_MEDIA_TYPES = {
    JSON_MEDIA_TYPE: ExportFormat.JSON,
    CSV_MEDIA_TYPE: ExportFormat.CSV,
    PARQUET_MEDIA_TYPE: ExportFormat.PARQUET,
}


def negotiate_format(request: Request, requested: ExportFormat | None) -> ExportFormat:
    """The format named in the query, else the preferred one of the Accept header; JSON wins a tie."""
    if requested is not None:
        return requested
    weights = _parse_accept(request)
    best = max(_MEDIA_TYPES, key=lambda media_type: weights.get(media_type, 0.0))
    return _MEDIA_TYPES[best]


def prefers_csv(request: Request) -> bool:
    """Whether the Accept header ranks CSV above JSON."""
    weights = _parse_accept(request)
    return weights.get(CSV_MEDIA_TYPE, 0.0) > weights.get(JSON_MEDIA_TYPE, 0.0)


def accepts_html(request: Request) -> bool:
    return HTML_MEDIA_TYPE in _parse_accept(request)


def _parse_accept(request: Request) -> dict[str, float]:
    """The weight of each media type that the Accept header names."""
    weights = {}
    for part in request.headers.get("accept", "").split(","):
        media_type, *parameters = (text.strip().lower() for text in part.split(";"))
        weights[media_type] = _quality(parameters)
    return weights


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
