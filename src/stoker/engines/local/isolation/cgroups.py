"""Limits that the kernel keeps for a pod's processes together: control groups below the one the server is in.

Both versions are read here and told apart once; where neither can be written, a pod has a limit per process instead.
"""

import contextlib
import os
from pathlib import Path

from msgspec import Struct

from stoker.domain.resources import Resources
from stoker.engines.local import mounts

FAMILY = "stoker"
_SERVER = "stoker-server"
_PERIOD = 100_000
_LEAST_QUOTA = 1000
_SHARES = 1024
_TRIES = 10
LEAST_PROCESSES = 4096
PROCESSES_PER_CPU = 256
_CONTROLLERS = ("memory", "cpu", "pids")


class Joined(Struct, frozen=True):
    """The groups of one pod: their folders, the files by which a process joins, where kills are counted, and where
    processors are limited."""

    folders: tuple[str, ...] = ()
    doors: tuple[str, ...] = ()
    kill_count: str = ""
    cpu_limit: str = ""


class ControlGroups(Struct, frozen=True):
    """Folders in which groups can be made; None where that limit cannot be kept."""

    version: int = 0
    memory: Path | None = None
    cpu: Path | None = None
    pids: Path | None = None

    def make(self, name: str, resources: Resources) -> Joined:
        """Groups with these limits, and one of processes and threads for every pod. A limit of 0 is none."""
        if self.version == 2:
            return self._make_v2(name, resources)
        folders = []
        kill_count = cpu_limit = ""
        if self.memory and resources.memory_bytes:
            folder = _new(self.memory / FAMILY / name)
            _put(folder / "memory.limit_in_bytes", resources.memory_bytes)
            with contextlib.suppress(OSError):  # absent where swap is not counted
                _put(folder / "memory.memsw.limit_in_bytes", resources.memory_bytes)
            kill_count = str(folder / "memory.oom_control")
            folders.append(folder)
        if self.cpu and resources.cpu_milli:
            folder = _new(self.cpu / FAMILY / name)
            _put(folder / "cpu.cfs_period_us", _PERIOD)
            _put(folder / "cpu.cfs_quota_us", _quota(resources))
            _put(folder / "cpu.shares", max(2, resources.cpu_milli * _SHARES // 1000))
            cpu_limit = str(folder / "cpu.cfs_quota_us")
            folders.append(folder)
        if self.pids:
            folder = _new(self.pids / FAMILY / name)
            _put(folder / "pids.max", _processes(resources))
            folders.append(folder)
        return _joined(folders, kill_count, cpu_limit)

    def _make_v2(self, name: str, resources: Resources) -> Joined:
        parent = self.memory or self.cpu or self.pids
        if parent is None:
            return Joined()
        folder = _new(parent / FAMILY / name)
        kill_count = cpu_limit = ""
        if self.memory and resources.memory_bytes:
            _put(folder / "memory.max", resources.memory_bytes)
            with contextlib.suppress(OSError):
                _put(folder / "memory.swap.max", 0)
            kill_count = str(folder / "memory.events")
        if self.cpu and resources.cpu_milli:
            _put(folder / "cpu.max", f"{_quota(resources)} {_PERIOD}")
            cpu_limit = str(folder / "cpu.max")
        if self.pids:
            _put(folder / "pids.max", _processes(resources))
        return _joined([folder], kill_count, cpu_limit)


def remove(folders: tuple[str, ...]) -> None:
    """Remove a pod's groups, once nothing runs in them, and the family's when it is empty."""
    for folder in map(Path, folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def processes(folders: tuple[str, ...]) -> set[int]:
    """All that run in these groups."""
    found: set[int] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found |= {int(word) for word in (Path(folder) / "cgroup.procs").read_text().split()}
    return found


def detect(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> ControlGroups:
    """Which limits could be kept on this machine; changes nothing."""
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    version_1 = {}
    for mount in mounts.parse((proc / "mountinfo").read_text()):
        if mount.kind == "cgroup":
            for controller in set(_CONTROLLERS) & set(mount.options.split(",")):
                folder = _own_folder(root, mount, own.get(controller, "/"))
                if folder and os.access(folder, os.W_OK):
                    version_1[controller] = folder
        elif mount.kind == "cgroup2" and "" in own:
            unified = _own_folder(root, mount, own[""])
            if unified and unified.name == _SERVER:
                unified = unified.parent
            if unified and (available := _available_v2(unified)):
                return ControlGroups(2, *(unified if name in available else None for name in _CONTROLLERS))
    return ControlGroups(1 if version_1 else 0, *map(version_1.get, _CONTROLLERS))


def take(groups: ControlGroups) -> ControlGroups:
    """Make ready what was detected. Version 2 has no groups beside processes, so the server moves into one."""
    folder = groups.memory or groups.cpu or groups.pids
    if groups.version != 2 or folder is None:
        return groups
    there = zip(_CONTROLLERS, (groups.memory, groups.cpu, groups.pids), strict=True)
    wanted = " ".join(f"+{name}" for name, place in there if place)
    try:
        if _only_us(folder) and not _is_root(folder):
            _put(_new(folder / _SERVER) / "cgroup.procs", os.getpid())
        _put(folder / "cgroup.subtree_control", wanted)
        _put(_new(folder / FAMILY) / "cgroup.subtree_control", wanted)
    except OSError:
        return ControlGroups()
    return groups


def _available_v2(folder: Path) -> set[str]:
    """Controllers that can be handed to groups below this one."""
    with contextlib.suppress(OSError):
        have = set((folder / "cgroup.controllers").read_text().split()) & set(_CONTROLLERS)
        handed_on = set((folder / "cgroup.subtree_control").read_text().split())
        may = os.access(folder / "cgroup.subtree_control", os.W_OK) and os.access(folder, os.W_OK)
        if may:
            return have if _only_us(folder) or _is_root(folder) else have & handed_on
    return set()


def _only_us(folder: Path) -> bool:
    return set((folder / "cgroup.procs").read_text().split()) <= {str(os.getpid())}


def _is_root(folder: Path) -> bool:
    """The one group of version 2 that may hold processes beside groups."""
    return not (folder / "cgroup.type").exists()


def _own_folder(root: Path, mount: mounts.Mount, path: str) -> Path | None:
    if not Path(path).is_relative_to(mount.root):
        return None
    return root / mount.point.lstrip("/") / Path(path).relative_to(mount.root)


def _joined(folders: list[Path], kill_count: str, cpu_limit: str) -> Joined:
    doors = tuple(str(folder / "cgroup.procs") for folder in folders)
    return Joined(tuple(map(str, folders)), doors, kill_count, cpu_limit)


def _quota(resources: Resources) -> int:
    return max(_LEAST_QUOTA, resources.cpu_milli * _PERIOD // 1000)


def _processes(resources: Resources) -> int:
    """Threads count too, and libraries start some for each processor."""
    return max(LEAST_PROCESSES, resources.cpu_milli * PROCESSES_PER_CPU // 1000)


def _new(folder: Path) -> Path:
    for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # another engine has just removed the family
            folder.mkdir(parents=True, exist_ok=True)
            return folder
    raise FileNotFoundError(f"{folder} cannot be made")


def _put(file: Path, value: int | str) -> None:
    file.write_text(str(value))
