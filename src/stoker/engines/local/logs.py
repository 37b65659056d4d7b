"""Reads the log segments that a shim has written. A segment is named by the position of its first byte, and every line
starts with its timestamp.
"""

import os
import sys
from itertools import pairwise
from pathlib import Path

from stoker.domain.cluster.engine_access import LogLine
from stoker.engines.local.shim.pod_dir import LOG_PREFIX

_MAX_READ_BYTES = 1 << 20
_TAIL_BYTES = 8192
_ADDRESS_IN_USE_MESSAGES = (b"address already in use", b"eaddrinuse")


def read_log(pod_folder: Path, position: int, limit: int) -> list[LogLine]:
    """Up to `limit` lines from a position on, and about one megabyte at most."""
    begins = sorted(int(name.removeprefix(LOG_PREFIX)) for name in _segment_names(pod_folder))
    lines: list[LogLine] = []
    dropped = max(0, begins[0] - position) if begins else 0
    read = 0
    for begin, following in pairwise([*begins, sys.maxsize]):
        if following <= position:
            continue
        position = max(position, begin)
        while len(lines) < limit - bool(dropped) and read < _MAX_READ_BYTES:
            data = _read(pod_folder / f"{LOG_PREFIX}{begin:016d}", position - begin)
            found = _parse_lines(data, position, limit - bool(dropped) - len(lines))
            if not found:
                break
            lines += found
            read += lines[-1].position - position
            position = lines[-1].position
    if dropped:
        at = lines[0].at if lines else 0
        lines.insert(0, LogLine(at, f"[stoker] {dropped} bytes of older output were dropped.", begins[0]))
    return lines


def _parse_lines(data: bytes, position: int, limit: int) -> list[LogLine]:
    """Parse the complete lines at the beginning of the data."""
    lines = []
    at = 0
    while len(lines) < limit and (end := data.find(b"\n", at)) >= 0:
        stamp, _, text = data[at:end].partition(b" ")
        when, text = (int(stamp), text) if stamp.isdigit() else (0, data[at:end])
        at = end + 1
        lines.append(LogLine(when, text.decode("utf-8", "replace"), position + at))
    return lines


def _read(path: Path, offset: int) -> bytes:
    try:
        with path.open("rb") as file:
            return os.pread(file.fileno(), _MAX_READ_BYTES, offset)
    except FileNotFoundError:
        return b""  # the segment was removed meanwhile


def _segment_names(pod_folder: Path) -> list[str]:
    try:
        return [path.name for path in pod_folder.glob(f"{LOG_PREFIX}*") if path.name.removeprefix(LOG_PREFIX).isdigit()]
    except FileNotFoundError:
        return []


def has_address_in_use_error(pod_folder: Path) -> bool:
    """Whether the end of the log contains an "address in use" error."""
    names = _segment_names(pod_folder)
    if not names:
        return False
    try:
        with (pod_folder / max(names, key=lambda name: int(name.removeprefix(LOG_PREFIX)))).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            printed = file.read(_TAIL_BYTES).lower()
    except FileNotFoundError:
        return False
    return any(complaint in printed for complaint in _ADDRESS_IN_USE_MESSAGES)
