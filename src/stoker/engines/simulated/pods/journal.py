"""What the engine was asked to do, kept in a file so that simulated pods outlive the server as real ones do.

A line is written before the answer, without waiting for the disk: a crash of the server loses nothing, a crash of the
machine may lose the last moments of the simulated world. A last line that was cut off is dropped.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.engines.simulated.pods import Attempt, Place

COMPACT_BYTES = 32 * 1024**2


class Applied(Struct, frozen=True, tag="apply"):
    attempt: Attempt
    places: tuple[Place, ...]


class Stopped(Struct, frozen=True, tag="stop"):
    """Pods, and when each of them is asked to end."""

    stops: tuple[tuple[str, int], ...]


class Forgotten(Struct, frozen=True, tag="forget"):
    uids: tuple[str, ...]


Entry = Applied | Stopped | Forgotten
_decoder = msgspec.json.Decoder(Entry)
_encode = msgspec.json.Encoder().encode


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _append_to(path)
        self._size = path.stat().st_size
        self._kept = 0

    @property
    def is_long(self) -> bool:
        """Whether most of it is about what no longer exists."""
        return self._size > COMPACT_BYTES + 4 * self._kept

    def read(self) -> Iterator[Entry]:
        """Everything that was written, oldest first."""
        with self.path.open("rb") as file:
            for line in file:
                try:
                    yield _decoder.decode(line)
                except msgspec.MsgspecError:
                    return  # cut off: nothing follows it

    def write(self, entry: Entry) -> None:
        self._size += os.write(self._file, _encode(entry) + b"\n")

    def compact(self, entries: Iterable[Entry]) -> None:
        """Begin anew with only these."""
        draft = self.path.with_suffix(".new")
        with draft.open("wb") as file:
            file.writelines(_encode(entry) + b"\n" for entry in entries)
        draft.replace(self.path)
        os.close(self._file)
        self._file = _append_to(self.path)
        self._size = self._kept = self.path.stat().st_size

    def close(self) -> None:
        os.close(self._file)


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
