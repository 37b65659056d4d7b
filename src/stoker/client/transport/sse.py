"""Parses server-sent events from bytes as they arrive.

Only a line feed ends a line: the server writes nothing else, and a log line may contain a carriage return.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from stoker.client.transport.request_flow import ApiResponse, Unreachable, error_from_response
from stoker.domain.errors import StokerError


class ServerEvent(Struct, frozen=True):
    """`name` is `message` if the server gave none."""

    name: str
    data: str
    id: str = ""


class EventParser:
    """Splits bytes into events. Bytes of an incomplete event are kept for the next call."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        *blocks, self._buffer = (self._buffer + chunk).split(b"\n\n")
        for block in blocks:
            if event := _parse_event(block.lstrip(b"\n")):
                yield event


class SseResponse:
    """The state of a response of events; `ended` once the server has closed the stream with an `end` event."""

    def __init__(self, server: str) -> None:
        self.ended = False
        self._server = server
        self._status = 0
        self._parser = EventParser()

    @property
    def is_success(self) -> bool:
        """Whether the response has begun with a success status."""
        return 200 <= self._status < 300

    def set_status(self, status: int) -> None:
        self._status = status

    def to_error(self, headers: Mapping[str, str], body: bytes) -> StokerError:
        return error_from_response(self._server, ApiResponse(self._status, headers, body))

    def interrupted_error(self) -> Unreachable:
        return Unreachable(self._server, "it broke off in the middle of a response", broke_off=True)

    def parse(self, chunk: bytes) -> Iterator[ServerEvent]:
        for event in self._parser.feed(chunk):
            match event.name:
                case "end":
                    self.ended = True
                    return
                case "error":
                    raise error_from_response(self._server, ApiResponse(500, {}, event.data.encode()))
                case _:
                    yield event


def _parse_event(block: bytes) -> ServerEvent | None:
    """The event of a block of lines; None if the block has only comments."""
    fields: dict[str, str] = {}
    data: list[str] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            data.append(text)
        elif name:
            fields[name.decode("ascii", "replace")] = text
    if not data:
        return None
    return ServerEvent(fields.get("event", "message"), "\n".join(data), fields.get("id", ""))
