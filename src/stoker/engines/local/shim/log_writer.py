"""Writes the output of a command, line by line with timestamps, into segments that are rotated when they are full.

A segment is named by the position of its first byte, so positions stay valid when older segments are removed. Segments
hold whole lines. A line longer than 64 KiB is written as several, and so is a progress bar that is redrawn for longer
than a second, because its line may not end for hours.
"""

import os
import time

from .pod_dir import LOG_PREFIX, PodDir

MAX_LINE_BYTES = 65_536
PROGRESS_FLUSH_SECONDS = 1.0


class LogWriter:
    def __init__(self, folder: PodDir, segment_bytes: int, segments: int) -> None:
        self._pod_dir = folder
        self._segment_bytes = segment_bytes
        self._max_segments = segments
        self._segment_names: list[str] = []
        self._fd = -1
        self._segment_start = 0
        self._segment_size = 0
        self._partial_line = b""
        self._partial_since = 0.0
        self._last_timestamp = 0
        self._lost_bytes = 0

    def feed(self, data: bytes) -> bool:
        """Add output. Returns whether a line was written."""
        now = time.monotonic()
        began = not self._partial_line
        data = self._partial_line + data
        end = data.rfind(b"\n") + 1
        lines, self._partial_line = data[:end], data[end:]
        if lines or began:
            self._partial_since = now
        elif now - self._partial_since >= PROGRESS_FLUSH_SECONDS and (drawn := complete_progress(self._partial_line)):
            lines, self._partial_line, self._partial_since = drawn + b"\n", self._partial_line[len(drawn) :], now
        if len(data) > MAX_LINE_BYTES:
            lines = b"".join(piece + b"\n" for line in lines.split(b"\n")[:-1] for piece in split_line(line))
            *whole, self._partial_line = split_line(self._partial_line)
            lines += b"".join(piece + b"\n" for piece in whole)
        return bool(lines) and self._write(lines)

    def flush(self) -> None:
        """Write the last line although it has no line end."""
        if self._partial_line:
            rest, self._partial_line = self._partial_line, b""
            self._write(rest + b"\n")

    def write_note(self, text: str) -> None:
        """Write a line of the shim itself."""
        self.flush()
        self._write(f"[stoker] {text}\n".encode())

    def _write(self, lines: bytes) -> bool:
        """Append whole lines. What does not fit on a full disk is lost, and a later line says so."""
        self._last_timestamp = max(self._last_timestamp, time.time_ns() // 1_000_000)
        stamp = b"%d " % self._last_timestamp
        size = len(lines)
        if self._lost_bytes:
            lines = b"[stoker] %d bytes of output were lost: the disk did not take them.\n" % self._lost_bytes + lines
        block = stamp + lines[:-1].replace(b"\n", b"\n" + stamp) + b"\n"
        try:
            if self._fd < 0 or (self._segment_size and self._segment_size + len(block) > self._segment_bytes):
                self._rotate()
            self._append(block)
        except OSError:
            self._lost_bytes += size
            return False
        self._lost_bytes = 0
        return True

    def _append(self, block: bytes) -> None:
        rest = block
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os.ftruncate(self._fd, self._segment_size)
            raise
        self._segment_size += len(block)

    def _rotate(self) -> None:
        name = f"{LOG_PREFIX}{self._segment_start + self._segment_size:016d}"
        fd = self._pod_dir.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._segment_start, self._segment_size = fd, self._segment_start + self._segment_size, 0
        self._segment_names.append(name)
        while len(self._segment_names) > self._max_segments:
            self._pod_dir.remove(self._segment_names.pop(0))


def complete_progress(rest: bytes) -> bytes:
    """The complete part of a redrawn line: everything before its last carriage return that is followed by something."""
    return rest[: max(0, rest.rfind(b"\r", 0, -1))]


def split_line(line: bytes) -> list[bytes]:
    """Split a line into parts of at most 64 KiB, none of which starts inside a character."""
    parts = []
    while len(line) > MAX_LINE_BYTES:
        cut = MAX_LINE_BYTES
        while cut > MAX_LINE_BYTES - 4 and line[cut] & 0xC0 == 0x80:
            cut -= 1
        parts.append(line[:cut])
        line = line[cut:]
    return [*parts, line]
