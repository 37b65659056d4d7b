"""Reads what a keeper has written: files named by the position of their first byte, each line with its time."""

import os
import sys
from itertools import pairwise
from pathlib import Path

from stoker.domain.reach import LogLine
from stoker.engines.local.keeper.folder import LOG

_MOST_BYTES = 1 << 20


def read_log(pod_folder: Path, position: int, limit: int) -> list[LogLine]:
    """Up to `limit` lines from a position on, and not many more than a megabyte at once."""
    begins = sorted(int(name.removeprefix(LOG)) for name in _names(pod_folder))
    lines: list[LogLine] = []
    dropped = max(0, begins[0] - position) if begins else 0
    read = 0
    for begin, following in pairwise([*begins, sys.maxsize]):
        if following <= position:
            continue
        position = max(position, begin)
        while len(lines) < limit - bool(dropped) and read < _MOST_BYTES:
            data = _read(pod_folder / f"{LOG}{begin:016d}", position - begin)
            found = _lines(data, position, limit - bool(dropped) - len(lines))
            if not found:
                break
            lines += found
            read += lines[-1].position - position
            position = lines[-1].position
    if dropped:
        at = lines[0].at if lines else 0
        lines.insert(0, LogLine(at, f"[stoker] {dropped} bytes of older output were dropped.", begins[0]))
    return lines


def _lines(data: bytes, position: int, limit: int) -> list[LogLine]:
    """The whole lines at the beginning of this."""
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
            return os.pread(file.fileno(), _MOST_BYTES, offset)
    except FileNotFoundError:
        return b""  # dropped meanwhile


def _names(pod_folder: Path) -> list[str]:
    try:
        return [path.name for path in pod_folder.glob(f"{LOG}*") if path.name.removeprefix(LOG).isdigit()]
    except FileNotFoundError:
        return []
