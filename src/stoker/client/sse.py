"""Server-sent events, read from bytes as they arrive.

Only a line feed ends a line: the server writes nothing else, and a line of a log may hold a carriage return.
"""

from collections.abc import Iterator

from msgspec import Struct


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
