"""The journal of the simulated engine: the calls it received, stored so that simulated pods outlive the server.

An entry is written before the call returns, without fsync: a crash of the server loses nothing, a crash of the machine
may lose the last entries. An incomplete last line is ignored.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from stoker.engines.simulated.pods.pod import PlannedPod, SimulatedAttempt

COMPACT_BYTES = 32 * 1024**2


class ApplyEntry(Struct, frozen=True, tag="apply"):
    attempt: SimulatedAttempt
    places: tuple[PlannedPod, ...]


class StopEntry(Struct, frozen=True, tag="stop"):
    """Pods, and the time at which each is asked to stop."""

    stops: tuple[tuple[str, int], ...]


class ReleaseEntry(Struct, frozen=True, tag="forget"):
    uids: tuple[str, ...]


class ReviseEntry(Struct, frozen=True, tag="revise"):
    """Pods that a later revision still lists."""

    uids: tuple[str, ...]
    revision: int


JournalEntry = ApplyEntry | StopEntry | ReleaseEntry | ReviseEntry
_decoder = msgspec.json.Decoder(JournalEntry)
_encode = msgspec.json.Encoder().encode


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = _append_to(path)
        self._size = path.stat().st_size
        self._compacted_size = 0

    @property
    def needs_compaction(self) -> bool:
        """Whether most entries are about pods that no longer exist."""
        return self._size > COMPACT_BYTES + 4 * self._compacted_size

    def read(self) -> Iterator[JournalEntry]:
        """All entries, oldest first."""
        with self.path.open("rb") as file:
            for line in file:
                try:
                    yield _decoder.decode(line)
                except msgspec.MsgspecError:
                    return  # incomplete: nothing follows it

    def write(self, entry: JournalEntry) -> None:
        self._size += os.write(self._file, _encode(entry) + b"\n")

    def compact(self, entries: Iterable[JournalEntry]) -> None:
        """Rewrite the journal with only these entries."""
        draft = self.path.with_suffix(".new")
        with draft.open("wb") as file:
            file.writelines(_encode(entry) + b"\n" for entry in entries)
        draft.replace(self.path)
        os.close(self._file)
        self._file = _append_to(self.path)
        self._size = self._compacted_size = self.path.stat().st_size

    def close(self) -> None:
        os.close(self._file)


def _append_to(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
