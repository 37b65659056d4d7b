"""What pods take of this machine, from one look at all of its processes, however many pods there are.

Time of a process that has ended moves to its parent, so a tree's time only grows as long as its root lives.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from stoker.domain.readings import PodUse

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Process(Struct, frozen=True):
    """`ticks` is its own processor time, `ended_ticks` that of its children that have ended."""

    parent: int
    ticks: int
    ended_ticks: int
    began_ticks: int
    memory_bytes: int


class _Tree:
    """The keeper at the root is ours: of it only the time of its children counts."""

    def __init__(self, root: Process) -> None:
        self.began = root.began_ticks / _TICKS_PER_SECOND
        self.ticks = root.ended_ticks
        self.memory_bytes = 0

    def add(self, process: Process) -> None:
        self.ticks += process.ticks + process.ended_ticks
        self.memory_bytes += process.memory_bytes


class Meter:
    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._before: dict[str, tuple[float, int]] = {}

    def read(self, roots: Mapping[str, int]) -> tuple[PodUse, ...]:
        """The processors used since the last look, or since the pod began, and the memory used now."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        trees = grown(processes(self._proc), {pid: uid for uid, pid in roots.items()}) if roots else {}
        uses = []
        for uid, tree in trees.items():
            since, ticks = self._before.get(uid, (tree.began, 0))
            seconds = max(now - since, 1 / _TICKS_PER_SECOND)
            milli = max(tree.ticks - ticks, 0) / _TICKS_PER_SECOND / seconds * 1000
            uses.append(PodUse(uid, round(milli), tree.memory_bytes))
        self._before = {uid: (now, tree.ticks) for uid, tree in trees.items()}
        return tuple(uses)


def grown(table: Mapping[int, Process], roots: Mapping[int, str]) -> dict[str, _Tree]:
    """The trees of these roots, by the names given to them."""
    trees = {roots[pid]: _Tree(table[pid]) for pid in roots if pid in table}
    owners: dict[int, str | None] = {pid: name for pid, name in roots.items() if pid in table}
    for pid in table:
        if (owner := _owner(pid, table, owners)) is not None and pid not in roots:
            trees[owner].add(table[pid])
    return trees


def _owner(pid: int, table: Mapping[int, Process], owners: dict[int, str | None]) -> str | None:
    """The root above a process, remembered for all on the way."""
    way = []
    while pid not in owners:
        way.append(pid)
        owners[pid] = None  # ends a circle, which a table read while it changes may have
        pid = table[pid].parent if pid in table else 0
    owner = owners[pid]
    owners.update(dict.fromkeys(way, owner))
    return owner


def processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """Every process that can be seen."""
    found = {}
    with os.scandir(proc) as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
                    found[int(entry.name)] = _process(f"{entry.path}/stat")
    return found


def _process(file: str) -> Process:
    """A command may hold spaces and brackets; what follows its last bracket is numbers."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        words = os.read(descriptor, 4096).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)
    return Process(
        parent=int(words[1]),
        ticks=int(words[11]) + int(words[12]),
        ended_ticks=int(words[13]) + int(words[14]),
        began_ticks=int(words[19]),
        memory_bytes=int(words[21]) * _PAGE_BYTES,
    )
