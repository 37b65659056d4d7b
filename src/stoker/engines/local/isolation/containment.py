"""Probes how well this machine can isolate jobs from the platform, by trying it."""

import contextlib
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local.isolation import cgroups, mounts, users
from stoker.engines.local.isolation.cgroups import CgroupControllers
from stoker.engines.local.shim import launch_file
from stoker.engines.local.shim.pod_dir import LAUNCH_FILE
from stoker.engines.local.shim_launcher import SHIM_SCRIPT

_DEVICE_PATTERNS = (
    *("null", "zero", "full", "random", "urandom", "tty", "fuse", "kvm", "hugepages"),
    *("kfd", "dri", "accel", "infiniband", "nvidia*"),
)
_PROBE_TIMEOUT_SECONDS = 20.0
_POD_PRIVATE_DIRS = (Path("/tmp"), Path("/dev"), Path("/proc"), Path("/sys"))  # noqa: S108 - every pod has its own


class ContainmentMode(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    SUBREAPER = "subreaper"


class ContainmentReport(Struct, frozen=True):
    """The isolation that pods get on this machine. `sentences` describe it to an operator."""

    mode: ContainmentMode
    pid_namespace: bool
    mount_namespace: bool
    user_namespace: bool
    cgroup_version: int
    memory_limit: bool
    cpu_limit: bool
    descriptions: tuple[str, ...]


def probe_containment(wanted: ContainmentMode = ContainmentMode.AUTO, first_user: int = 0) -> ContainmentReport:
    """Probe the isolation. Requiring namespaces where they are not available is an error."""
    refusal = "" if wanted is ContainmentMode.SUBREAPER else probe_namespaces()
    if refusal and wanted is ContainmentMode.NAMESPACES:
        raise StokerError(
            ErrorCode.CONFLICT,
            f"containment is set to namespaces, but this machine refuses them ({refusal}).",
            hint="Allow unprivileged user namespaces, run Stoker as root, or set containment to auto.",
            field="containment",
        )
    use_namespaces = wanted is not ContainmentMode.SUBREAPER and not refusal
    groups = cgroups.detect()
    return ContainmentReport(
        mode=ContainmentMode.NAMESPACES if use_namespaces else ContainmentMode.SUBREAPER,
        pid_namespace=use_namespaces,
        mount_namespace=use_namespaces,
        user_namespace=use_namespaces and os.geteuid() != 0,
        cgroup_version=groups.version,
        memory_limit=groups.memory is not None,
        cpu_limit=groups.cpu is not None,
        descriptions=(*_describe_namespaces(use_namespaces, refusal, first_user), *_describe_limits(groups)),
    )


def probe_namespaces() -> str:
    """Build an empty sandbox. Returns why that failed, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="stoker-probe-") as name:
        folder = Path(name).resolve()
        (folder / "hidden" / "work").mkdir(parents=True)
        (folder / "tmp").mkdir()
        return _run_probe(folder, sandbox_fields(folder / "hidden", folder / "hidden" / "work", folder / "tmp"))


def check_working_directory(
    directory: str, data_dir: Path, hidden: Iterable[Path] = (), user: int = 0, *, use_namespaces: bool
) -> str:
    """Why a pod could not start in this directory of the machine, found by trying it in a sandbox; empty if it
    could."""
    try:
        found = Path(directory).stat()
        if not stat.S_ISDIR(found.st_mode):
            return "It is not a directory."
    except PermissionError:
        return "The server's user may not enter it."
    except (OSError, ValueError):
        return "There is no such directory on the server's machine."
    if not use_namespaces:
        return "" if os.access(directory, os.X_OK, effective_ids=True) else "The server's user may not enter it."
    with tempfile.TemporaryDirectory(prefix="entry-", dir=data_dir / "local") as name:
        folder = Path(name).resolve()
        (folder / "work").mkdir()
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        seen = sandbox_fields(data_dir, folder / "work", folder / "tmp", hidden, user)
        inode = f"{found.st_dev}:{found.st_ino}"
        refusal = _run_probe(folder, [*seen, ("enter", directory), ("enter-inode", inode)])
    return _working_directory_error(refusal, user) if refusal else ""


def _working_directory_error(refusal: str, user: int) -> str:
    match refusal.partition(":")[0]:
        case "Permission denied":
            who = f"Jobs run as a user of their workspace's own (number {user}), who" if user else "The server's user"
            return f"{who} may not enter it."
        case "No such file or directory":
            return (
                "Jobs do not see it: they have a /tmp and a /dev of their own, and what only root may enter, and the "
                "data directory, are hidden from them."
            )
        case _:
            return f"Jobs cannot enter it ({refusal})."


def _run_probe(folder: Path, sandbox: list[tuple[str, str]]) -> str:
    """The error of a shim that tries to build this sandbox; empty if it succeeds."""
    (folder / LAUNCH_FILE).write_bytes(launch_file.encode(sandbox))
    command = [sys.executable, "-I", "-S", SHIM_SCRIPT, "--probe", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=_PROBE_TIMEOUT_SECONDS, check=False)
    return "" if done.returncode == 0 else (done.stdout or done.stderr).strip().splitlines()[-1]


def sandbox_fields(
    data_dir: Path, work: Path, temporary: Path, more: Iterable[Path] = (), user: int = 0
) -> list[tuple[str, str]]:
    """The fields of a launch file that describe what a pod sees: never the data directory, under any path. A pod with a
    uid of its own must be able to reach everything that it sees."""
    others = mounts.find_aliases(mounts.parse_mountinfo(mounts.MOUNTINFO.read_text()), str(data_dir))
    hidden = [
        data_dir,
        *(path for path in map(Path, others) if path.exists()),
        *(path for path in more if path.exists()),
    ]
    readable = [] if user else [home for home in home_directories() if not any(map(Path(home).is_relative_to, hidden))]
    nodes = sorted({path.name for pattern in _DEVICE_PATTERNS for path in Path("/dev").glob(pattern)})
    code = platform_code_dirs()
    covered = users.find_unreachable_parents([work, *map(Path, code)], (data_dir, Path("/tmp"))) if user else []  # noqa: S108
    groups = users.device_groups(nodes) if user else []
    return [
        ("namespaces", "1"),
        ("folder", str(work)),
        ("temporary", str(temporary)),
        *(("covered", path) for path in covered),
        *(("hidden", str(path)) for path in hidden),
        *(("read-only", path) for path in code),
        *(("read-only", path) for path in readable),
        *(("device", name) for name in nodes),
        ("user", str(user)),
        *(("user-group", str(group)) for group in groups),
    ]


def _describe_namespaces(use_namespaces: bool, refusal: str, first_user: int) -> list[str]:
    if not use_namespaces:
        why = f" ({refusal})" if refusal else ""
        return [
            f"Jobs run without namespaces{why}: they are stopped with all their children, but a job can read the data "
            "directory and signal other processes of this user. Run only jobs that you trust.",
        ]
    ipc = ", /tmp, /dev/shm and IPC" if Path("/proc/self/ns/ipc").exists() else ", /tmp and /dev/shm (not IPC)"
    said = [f"Each pod has its own process tree, /dev{ipc}, and sees of the data directory only its workload's folder."]
    if os.geteuid() == 0 and first_user:
        said.append(f"Jobs run as a user of their workspace's own (number {first_user} and up) without any privilege.")
    elif os.geteuid() == 0:
        said.append(
            "Jobs run as root without the privileges to undo this, but they can change system files (local_user is 0)."
        )
    else:
        said.append(
            "Jobs run in a user namespace with this user's rights to the rest of the machine; "
            "its home directory they can only read."
        )
    return said


def _describe_limits(groups: CgroupControllers) -> list[str]:
    version = f"control groups version {groups.version}"
    memory = f"by {version}" if groups.memory else "for each process alone (no control group can be written)"
    cpu = f"CPU is limited by {version}." if groups.cpu else "CPU is not limited (no control group can be written)."
    processes = (
        f"A pod has at most {cgroups.MIN_PIDS_LIMIT} processes and threads, or {cgroups.PIDS_PER_CPU} "
        f"for each CPU if that is more, by {version}."
        if groups.pids
        else "The number of processes is not limited (no control group can be written)."
    )
    return [f"Memory is limited {memory}.", cpu, processes]


def home_directories() -> list[str]:
    """The home directories of the server's user, by `$HOME` and by the machine's accounts. Jobs may not write there,
    for example to shell start-up files. Directories that are hidden from jobs anyway are omitted."""
    named = [os.environ.get("HOME", "")]
    with contextlib.suppress(KeyError):
        named.append(pwd.getpwuid(os.geteuid()).pw_dir)
    found = dict.fromkeys(Path(name).resolve() for name in named if name.startswith("/"))
    return [
        str(home)
        for home in found
        if home.is_dir() and home != Path("/") and not any(map(home.is_relative_to, _POD_PRIVATE_DIRS))
    ]


def platform_code_dirs() -> list[str]:
    """The directories of the code that the server runs. A job that could write there could take over the server."""
    package = Path(__file__).resolve().parents[3]
    pythons = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()} - {Path("/usr"), Path("/usr/local")}
    return [str(path) for path in (package, *sorted(pythons))]
