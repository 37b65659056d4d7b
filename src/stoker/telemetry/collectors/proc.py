"""CPU and memory usage of pods, from one pass over all processes of the machine.

The CPU time of a process that ended is added to its parent, so the time of a tree only grows while its root lives.
"""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from stoker.domain.cluster.samples import PodUsage

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcStat(Struct, frozen=True):
    """`ticks` is the CPU time of the process, `children_ticks` that of its children that have ended."""

    parent: int
    ticks: int
    children_ticks: int
    start_ticks: int
    memory_bytes: int


class _ProcessTree:
    """The processes of a pod. The root is the shim, of which only the CPU time of its children counts."""

    def __init__(self, root: ProcStat) -> None:
        self.started = root.start_ticks / _TICKS_PER_SECOND
        self.ticks = root.children_ticks
        self.memory_bytes = 0

    def add(self, process: ProcStat) -> None:
        self.ticks += process.ticks + process.children_ticks
        self.memory_bytes += process.memory_bytes


def uptime_seconds() -> float:
    """Seconds since boot: the clock of process start times in /proc."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ProcessTreeMeter:
    def __init__(self, proc: Path = Path("/proc"), now: Callable[[], float] = uptime_seconds) -> None:
        self._proc = proc
        self._now = now
        self._last_read = now()
        self._last_usage: dict[str, tuple[float, int]] = {}

    def read(self, roots: Mapping[str, int]) -> tuple[PodUsage, ...]:
        """The mean CPU usage since the last read, or since the pod started if that is later, and the current memory.
        A pod that started before the last read and is new to it has no CPU usage yet."""
        now = self._now()
        trees = build_trees(read_processes(self._proc), {pid: uid for uid, pid in roots.items()}) if roots else {}
        usage = []
        for uid, tree in trees.items():
            before = self._last_usage.get(uid) or ((tree.started, 0) if tree.started >= self._last_read else None)
            usage.append(PodUsage(uid, before and _cpu_milli(*before, now, tree.ticks), tree.memory_bytes))
        self._last_usage = {uid: (now, tree.ticks) for uid, tree in trees.items()}
        self._last_read = now
        return tuple(usage)


def _cpu_milli(since: float, ticks: int, now: float, ticks_now: int) -> int:
    """Milli-CPUs used since a moment at which the CPU time was `ticks`."""
    seconds = max(now - since, 1 / _TICKS_PER_SECOND)
    return round(max(ticks_now - ticks, 0) / _TICKS_PER_SECOND / seconds * 1000)


def build_trees(table: Mapping[int, ProcStat], roots: Mapping[int, str]) -> dict[str, _ProcessTree]:
    """The process trees of these roots, by the names of the roots."""
    trees = {roots[pid]: _ProcessTree(table[pid]) for pid in roots if pid in table}
    owners: dict[int, str | None] = {pid: name for pid, name in roots.items() if pid in table}
    for pid in table:
        if (owner := _find_root(pid, table, owners)) is not None and pid not in roots:
            trees[owner].add(table[pid])
    return trees


def _find_root(pid: int, table: Mapping[int, ProcStat], owners: dict[int, str | None]) -> str | None:
    """The name of the root above a process; cached for all processes on the path."""
    path = []
    while pid not in owners:
        path.append(pid)
        owners[pid] = None  # breaks a cycle, which a process table read while it changes may have
        pid = table[pid].parent if pid in table else 0
    owner = owners[pid]
    owners.update(dict.fromkeys(path, owner))
    return owner


def read_processes(proc: Path = Path("/proc")) -> dict[int, ProcStat]:
    """Every visible process, by pid."""
    processes = {}
    with os.scandir(proc) as entries:
        for entry in entries:
            if entry.name.isdigit():
                with contextlib.suppress(OSError, ValueError, IndexError):  # the process has just ended
                    processes[int(entry.name)] = _read_process(f"{entry.path}/stat")
    return processes


def _read_process(file: str) -> ProcStat:
    """Parse a stat file. The command name may contain spaces and brackets, so fields count from the last bracket."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        words = os.read(descriptor, 4096).rpartition(b")")[2].split()
    finally:
        os.close(descriptor)
    return ProcStat(
        parent=int(words[1]),
        ticks=int(words[11]) + int(words[12]),
        children_ticks=int(words[13]) + int(words[14]),
        start_ticks=int(words[19]),
        memory_bytes=int(words[21]) * _PAGE_BYTES,
    )
