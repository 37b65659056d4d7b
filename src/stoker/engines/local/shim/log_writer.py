"""What a command prints, line by line with the time, in files that are replaced when they are full.

A file is named by the position of its first byte, so a position stays true whatever was dropped before it.
Only whole lines are in a file; one longer than 64 KiB is written as several, and so is one that is drawn over for
longer than a second: a progress bar may go on for hours before its line ends.
"""

import os
import time

from .folder import LOG, Folder

LINE_LIMIT = 65_536
DRAWN_SECONDS = 1.0


class Output:
    def __init__(self, folder: Folder, segment_bytes: int, segments: int) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._names: list[str] = []
        self._fd = -1
        self._begin = 0
        self._size = 0
        self._rest = b""
        self._rest_since = 0.0
        self._at = 0
        self._lost = 0

    def feed(self, data: bytes) -> bool:
        """Take what was printed; tells whether a line was written."""
        now = time.monotonic()
        began = not self._rest
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        lines, self._rest = data[:end], data[end:]
        if lines or began:
            self._rest_since = now
        elif now - self._rest_since >= DRAWN_SECONDS and (drawn := last_drawn(self._rest)):
            lines, self._rest, self._rest_since = drawn + b"\n", self._rest[len(drawn) :], now
        if len(data) > LINE_LIMIT:
            lines = b"".join(piece + b"\n" for line in lines.split(b"\n")[:-1] for piece in pieces(line))
            *whole, self._rest = pieces(self._rest)
            lines += b"".join(piece + b"\n" for piece in whole)
        return bool(lines) and self._write(lines)

    def flush(self) -> None:
        """Write the last line although it has no end."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._write(rest + b"\n")

    def note(self, text: str) -> None:
        """A line of the keeper's own."""
        self.flush()
        self._write(f"[stoker] {text}\n".encode())

    def _write(self, lines: bytes) -> bool:
        """Whole lines into the file; what a full disk does not take is lost, and a later line says so."""
        self._at = max(self._at, time.time_ns() // 1_000_000)
        stamp = b"%d " % self._at
        size = len(lines)
        if self._lost:
            lines = b"[stoker] %d bytes of output were lost: the disk did not take them.\n" % self._lost + lines
        block = stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
        try:
            if self._fd < 0 or (self._size and self._size + len(block) > self._segment_bytes):
                self._next_file()
            self._append(block)
        except OSError:
            self._lost += size
            return False
        self._lost = 0
        return True

    def _append(self, block: bytes) -> None:
        rest = block
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(block)

    def _next_file(self) -> None:
        name = f"{LOG}{self._begin + self._size:016d}"
        fd = self._folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._begin, self._size = fd, self._begin + self._size, 0
        self._names.append(name)
        while len(self._names) > self._segments:
            self._folder.remove(self._names.pop(0))


def last_drawn(rest: bytes) -> bytes:
    """What is complete of a line that is drawn over: all before its last carriage return that something follows."""
    return rest[: max(0, rest.rfind(b"\r", 0, -1))]


def pieces(line: bytes) -> list[bytes]:
    """A line in parts of at most 64 KiB, none of which begins inside a character."""
    parts = []
    while len(line) > LINE_LIMIT:
        cut = LINE_LIMIT
        while cut > LINE_LIMIT - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        parts.append(line[:cut])
        line = line[cut:]
    return [*parts, line]
