"""Resource limits of pods by control groups, created below the server's own group.

Both cgroup versions are supported and told apart here only. Where neither is writable, pods get limits per process.
"""

import contextlib
import os
from pathlib import Path

from msgspec import Struct

from stoker.domain.cluster.resources import Resources
from stoker.engines.local.isolation import mounts

PARENT_GROUP = "stoker"
_SERVER_GROUP = "stoker-server"
_CPU_PERIOD_US = 100_000
_MIN_CPU_QUOTA_US = 1000
_CPU_SHARES_PER_CORE = 1024
_MAX_MKDIR_ATTEMPTS = 10
MIN_PIDS_LIMIT = 4096
PIDS_PER_CPU = 256
_CONTROLLERS = ("memory", "cpu", "pids")


class PodCgroups(Struct, frozen=True):
    """The control groups of one pod: their directories, the files by which a process joins them, the OOM kill counter
    and the CPU limit."""

    dirs: tuple[str, ...] = ()
    procs_files: tuple[str, ...] = ()
    oom_events_file: str = ""
    cpu_limit_file: str = ""


class CgroupControllers(Struct, frozen=True):
    """The directories in which groups can be created; None where that controller is not available."""

    version: int = 0
    memory: Path | None = None
    cpu: Path | None = None
    pids: Path | None = None

    def create(self, name: str, resources: Resources) -> PodCgroups:
        """Create the groups of a pod with these limits; processes and threads are always limited. A limit of 0 means
        none."""
        if self.version == 2:
            return self._create_v2(name, resources)
        folders = []
        kill_count = cpu_limit = ""
        if self.memory and resources.memory_bytes:
            folder = _make_dir(self.memory / PARENT_GROUP / name)
            _write_value(folder / "memory.limit_in_bytes", resources.memory_bytes)
            with contextlib.suppress(OSError):  # absent where swap is not counted
                _write_value(folder / "memory.memsw.limit_in_bytes", resources.memory_bytes)
            kill_count = str(folder / "memory.oom_control")
            folders.append(folder)
        if self.cpu and resources.cpu_milli:
            folder = _make_dir(self.cpu / PARENT_GROUP / name)
            _write_value(folder / "cpu.cfs_period_us", _CPU_PERIOD_US)
            _write_value(folder / "cpu.cfs_quota_us", _cpu_quota_us(resources))
            _write_value(folder / "cpu.shares", max(2, resources.cpu_milli * _CPU_SHARES_PER_CORE // 1000))
            cpu_limit = str(folder / "cpu.cfs_quota_us")
            folders.append(folder)
        if self.pids:
            folder = _make_dir(self.pids / PARENT_GROUP / name)
            _write_value(folder / "pids.max", _pids_limit(resources))
            folders.append(folder)
        return _pod_cgroups(folders, kill_count, cpu_limit)

    def _create_v2(self, name: str, resources: Resources) -> PodCgroups:
        parent = self.memory or self.cpu or self.pids
        if parent is None:
            return PodCgroups()
        folder = _make_dir(parent / PARENT_GROUP / name)
        kill_count = cpu_limit = ""
        if self.memory and resources.memory_bytes:
            _write_value(folder / "memory.max", resources.memory_bytes)
            with contextlib.suppress(OSError):
                _write_value(folder / "memory.swap.max", 0)
            kill_count = str(folder / "memory.events")
        if self.cpu and resources.cpu_milli:
            _write_value(folder / "cpu.max", f"{_cpu_quota_us(resources)} {_CPU_PERIOD_US}")
            cpu_limit = str(folder / "cpu.max")
        if self.pids:
            _write_value(folder / "pids.max", _pids_limit(resources))
        return _pod_cgroups([folder], kill_count, cpu_limit)


def remove(folders: tuple[str, ...]) -> None:
    """Remove a pod's groups once nothing runs in them, and their parent when it is empty."""
    for folder in map(Path, folders):
        with contextlib.suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def list_pids(folders: tuple[str, ...]) -> set[int]:
    """The pids of all processes in these groups."""
    found: set[int] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            found |= {int(word) for word in (Path(folder) / "cgroup.procs").read_text().split()}
    return found


def detect(proc: Path = Path("/proc/self"), root: Path = Path("/")) -> CgroupControllers:
    """Detect which limits this machine supports, without changing anything."""
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    version_1 = {}
    for mount in mounts.parse_mountinfo((proc / "mountinfo").read_text()):
        if mount.fs_type == "cgroup":
            for controller in set(_CONTROLLERS) & set(mount.options.split(",")):
                folder = _own_cgroup_dir(root, mount, own.get(controller, "/"))
                if folder and os.access(folder, os.W_OK):
                    version_1[controller] = folder
        elif mount.fs_type == "cgroup2" and "" in own:
            unified = _own_cgroup_dir(root, mount, own[""])
            if unified and unified.name == _SERVER_GROUP:
                unified = unified.parent
            if unified and (available := _delegated_controllers(unified)):
                return CgroupControllers(2, *(unified if name in available else None for name in _CONTROLLERS))
    return CgroupControllers(1 if version_1 else 0, *map(version_1.get, _CONTROLLERS))


def prepare(groups: CgroupControllers) -> CgroupControllers:
    """Prepare the detected controllers. In version 2 a group with subgroups cannot hold processes, so the server moves
    into one."""
    folder = groups.memory or groups.cpu or groups.pids
    if groups.version != 2 or folder is None:
        return groups
    there = zip(_CONTROLLERS, (groups.memory, groups.cpu, groups.pids), strict=True)
    wanted = " ".join(f"+{name}" for name, place in there if place)
    try:
        if _is_only_process(folder) and not _is_root_cgroup(folder):
            _write_value(_make_dir(folder / _SERVER_GROUP) / "cgroup.procs", os.getpid())
        _write_value(folder / "cgroup.subtree_control", wanted)
        _write_value(_make_dir(folder / PARENT_GROUP) / "cgroup.subtree_control", wanted)
    except OSError:
        return CgroupControllers()
    return groups


def _delegated_controllers(folder: Path) -> set[str]:
    """The controllers that can be delegated to subgroups of this group."""
    with contextlib.suppress(OSError):
        have = set((folder / "cgroup.controllers").read_text().split()) & set(_CONTROLLERS)
        handed_on = set((folder / "cgroup.subtree_control").read_text().split())
        may = os.access(folder / "cgroup.subtree_control", os.W_OK) and os.access(folder, os.W_OK)
        if may:
            return have if _is_only_process(folder) or _is_root_cgroup(folder) else have & handed_on
    return set()


def _is_only_process(folder: Path) -> bool:
    return set((folder / "cgroup.procs").read_text().split()) <= {str(os.getpid())}


def _is_root_cgroup(folder: Path) -> bool:
    """In version 2 only the root group may hold both processes and subgroups."""
    return not (folder / "cgroup.type").exists()


def _own_cgroup_dir(root: Path, mount: mounts.Mount, path: str) -> Path | None:
    if not Path(path).is_relative_to(mount.root):
        return None
    return root / mount.mount_point.lstrip("/") / Path(path).relative_to(mount.root)


def _pod_cgroups(folders: list[Path], kill_count: str, cpu_limit: str) -> PodCgroups:
    doors = tuple(str(folder / "cgroup.procs") for folder in folders)
    return PodCgroups(tuple(map(str, folders)), doors, kill_count, cpu_limit)


def _cpu_quota_us(resources: Resources) -> int:
    return max(_MIN_CPU_QUOTA_US, resources.cpu_milli * _CPU_PERIOD_US // 1000)


def _pids_limit(resources: Resources) -> int:
    """Threads count too, and libraries start some per CPU."""
    return max(MIN_PIDS_LIMIT, resources.cpu_milli * PIDS_PER_CPU // 1000)


def _make_dir(folder: Path) -> Path:
    for _ in range(_MAX_MKDIR_ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):  # another engine has just removed the parent
            folder.mkdir(parents=True, exist_ok=True)
            return folder
    raise FileNotFoundError(f"{folder} cannot be made")


def _write_value(file: Path, value: int | str) -> None:
    file.write_text(str(value))
