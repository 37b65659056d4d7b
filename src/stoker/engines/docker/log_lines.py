"""Puts the lines of a log together, each with its cursor.

The cursor of a line follows from its time alone: nanoseconds since the creation of its container, with room for lines
of the same time. It is the same for every engine that reads the line, and it grows with every line, also where Docker
wrote two lines in the opposite order of their times.
"""

from msgspec import Struct

from stoker.domain.cluster.engine_access import LogLine
from stoker.engines.docker.api.frames import StreamFrame
from stoker.engines.docker.api.schema import parse_time_ns

SLOTS_PER_NANOSECOND = 64
REORDER_NS = 1_000_000_000
"""Docker may write a line this much later than its time says; a reader begins so much earlier and skips."""
MAX_LINE_BYTES = 65_536
FRAME_BYTES = 16_384
"""Docker cuts longer lines into frames of this size, all with the time of the first."""
_MAX_CHARACTER_BYTES = 4


class _Partial(Struct):
    at: int
    content: bytes


def cursor_time_ns(created_ns: int, cursor: int) -> int:
    """From when on a reader at this cursor has to read; 0 is the beginning."""
    return created_ns + cursor // SLOTS_PER_NANOSECOND - REORDER_NS if cursor > 0 else 0


class LineAssembler:
    """Lines from the frames of one container in order. Lines before the cursor are left out."""

    def __init__(self, created_ns: int, cursor: int) -> None:
        self._created_ns = created_ns
        self._cursor = cursor
        self._last = -1
        self._partial: dict[int, _Partial] = {}

    def feed(self, frame: StreamFrame) -> list[LogLine]:
        """The lines that a frame completes. A line without an end is complete when the next one has another time."""
        stamp, _, content = frame.content.partition(b" ")
        at = parse_time_ns(stamp.decode("ascii", "replace"))
        if at is None:
            return []
        lines: list[LogLine] = []
        before = self._partial.pop(frame.stream, None)
        if before is not None and before.at == at:
            content = before.content + content
        elif before is not None:
            self._emit(lines, before.at, before.content)
        if content.endswith(b"\n"):
            self._emit(lines, at, content[:-1])
        elif len(content) > MAX_LINE_BYTES - FRAME_BYTES:
            end = _character_end(content)
            self._emit(lines, at, content[:end])
            self._partial[frame.stream] = _Partial(at, content[end:])
        else:
            self._partial[frame.stream] = _Partial(at, content)
        return lines

    def finish(self) -> list[LogLine]:
        """The last lines of a container that has ended, if they have no end."""
        lines: list[LogLine] = []
        for partial in self._partial.values():
            if partial.content:
                self._emit(lines, partial.at, partial.content)
        self._partial.clear()
        return lines

    def _emit(self, lines: list[LogLine], at: int, content: bytes) -> None:
        self._last = max(self._last + 1, (at - self._created_ns) * SLOTS_PER_NANOSECOND)
        if self._last >= self._cursor:
            shown_ms = (self._created_ns + self._last // SLOTS_PER_NANOSECOND) // 1_000_000
            lines.append(LogLine(shown_ms, content.decode("utf-8", "replace"), self._last + 1))


def _character_end(content: bytes) -> int:
    """The length of the content without an incomplete character at its end."""
    for back in range(1, min(_MAX_CHARACTER_BYTES, len(content)) + 1):
        byte = content[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # not in the middle of a character
            needed = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(content) - back if needed > back else len(content)
    return len(content)
