"""Server-sent events, read from bytes as they arrive.

Only a line feed ends a line: the server writes nothing else, and a line of a log may hold a carriage return.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from stoker.client.exchange import Answer, Unreachable, error_in
from stoker.domain.errors import StokerError


class ServerEvent(Struct, frozen=True):
    """`name` is `message` where the server gave none."""

    name: str
    data: str
    id: str = ""


class EventReader:
    """Bytes in, whole events out; what is unfinished waits for the rest."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, part: bytes) -> Iterator[ServerEvent]:
        *blocks, self._rest = (self._rest + part).split(b"\n\n")
        for block in blocks:
            if event := _event(block.lstrip(b"\n")):
                yield event


class Reading:
    """An answer of events while it is read; `over` when the server has said that nothing follows."""

    def __init__(self, server: str) -> None:
        self.over = False
        self._server = server
        self._status = 0
        self._reader = EventReader()

    @property
    def good(self) -> bool:
        """Whether the answer has begun, and is none of an error."""
        return 200 <= self._status < 300

    def begin(self, status: int) -> None:
        self._status = status

    def refusal(self, headers: Mapping[str, str], body: bytes) -> StokerError:
        return error_in(self._server, Answer(self._status, headers, body))

    def broken_off(self) -> Unreachable:
        return Unreachable(self._server, "it broke off in the middle of an answer", broke_off=True)

    def events(self, part: bytes) -> Iterator[ServerEvent]:
        for event in self._reader.feed(part):
            match event.name:
                case "end":
                    self.over = True
                    return
                case "error":
                    raise error_in(self._server, Answer(500, {}, event.data.encode()))
                case _:
                    yield event


def _event(block: bytes) -> ServerEvent | None:
    """The event of the lines between two empty ones; None where there are only comments."""
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
