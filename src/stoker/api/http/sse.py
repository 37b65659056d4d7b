"""Server-sent events: their media type, encoding and description.

Every stream of the API is encoded here, so that all clients can read all of them.
"""

from typing import Any

from msgspec import Struct

from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.families import ApiFamily, encode_json
from stoker.domain.errors import StokerError

SSE_MEDIA_TYPE = "text/event-stream"
SSE_KEEP_ALIVE = b": keep-alive\n\n"
END_EVENT = b"event: end\ndata: \n\n"


class EventSchema(Struct, frozen=True):
    """One kind of event of a stream, for OpenAPI. An empty name stands for events without a name."""

    name: str
    description: str
    data: Any


def encode_event(name: str, data: Any, event_id: int) -> bytes:
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event_id, name.encode(), encode_json(data))


def encode_line(line: str) -> bytes:
    """An event without a name. A carriage return ends a line of an event, so each part becomes a line of its own."""
    parts = line.rstrip("\r").split("\r")
    return b"".join(b"data: %b\n" % part.encode("utf-8", "replace") for part in parts) + b"\n"


def encode_error(family: ApiFamily, error: StokerError, trace_id: str) -> bytes:
    """The last event of a stream that failed."""
    return b"event: error\ndata: %b\n\n" % encode_json(family.to_error(error, HTTP_STATUS[error.code], trace_id))
