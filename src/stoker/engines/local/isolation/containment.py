"""How well this machine can keep a job apart from the platform, tried out rather than guessed."""

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local import cgroups, mounts, users
from stoker.engines.local.cgroups import ControlGroups
from stoker.engines.local.keeper import order
from stoker.engines.local.keeper.folder import ORDER
from stoker.engines.local.launch import SHIM

_DEVICES = (
    *("null", "zero", "full", "random", "urandom", "tty", "fuse", "kvm", "hugepages"),
    *("kfd", "dri", "accel", "infiniband", "nvidia*"),
)
_PROBE_SECONDS = 20.0
_NO_HOMES = {Path("/"), Path("/tmp"), Path("/dev"), Path("/proc"), Path("/sys")}  # noqa: S108


class ContainmentMode(StrEnum):
    AUTO = "auto"
    NAMESPACES = "namespaces"
    SUBREAPER = "subreaper"


class Containment(Struct, frozen=True):
    """What pods get here. `sentences` say it to an operator."""

    mode: ContainmentMode
    pid_namespace: bool
    mount_namespace: bool
    user_namespace: bool
    cgroup_version: int
    memory_limit: bool
    cpu_limit: bool
    sentences: tuple[str, ...]


def containment(wanted: ContainmentMode = ContainmentMode.AUTO, first_user: int = 0) -> Containment:
    """Try what can be had; asking for namespaces where there are none is an error."""
    refusal = "" if wanted is ContainmentMode.SUBREAPER else probe()
    if refusal and wanted is ContainmentMode.NAMESPACES:
        raise StokerError(
            ErrorCode.STATE_FORBIDS,
            f"containment is set to namespaces, but this machine refuses them ({refusal}).",
            hint="Allow unprivileged user namespaces, run Stoker as root, or set containment to auto.",
            field="containment",
        )
    walls = wanted is not ContainmentMode.SUBREAPER and not refusal
    groups = cgroups.detect()
    return Containment(
        mode=ContainmentMode.NAMESPACES if walls else ContainmentMode.SUBREAPER,
        pid_namespace=walls,
        mount_namespace=walls,
        user_namespace=walls and os.geteuid() != 0,
        cgroup_version=groups.version,
        memory_limit=groups.memory is not None,
        cpu_limit=groups.cpu is not None,
        sentences=(*_about_walls(walls, refusal, first_user), *_about_limits(groups)),
    )


def probe() -> str:
    """Build a pod's walls around nothing; why that failed, or nothing."""
    with tempfile.TemporaryDirectory(prefix="stoker-probe-") as name:
        folder = Path(name).resolve()
        (folder / "hidden" / "work").mkdir(parents=True)
        (folder / "tmp").mkdir()
        walls = walls_of(folder / "hidden", folder / "hidden" / "work", folder / "tmp")
        (folder / ORDER).write_bytes(order.encode(walls))
        command = [sys.executable, "-I", "-S", SHIM, "--probe", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=_PROBE_SECONDS, check=False)
    return "" if done.returncode == 0 else (done.stdout or done.stderr).strip().splitlines()[-1]


def walls_of(
    data_dir: Path, work: Path, temporary: Path, more: Iterable[Path] = (), user: int = 0
) -> list[tuple[str, str]]:
    """The part of a launch order that says what a pod sees: not the data directory, under whatever path. A pod with a
    user of its own must be able to reach what it does see."""
    others = mounts.aliases(mounts.parse(mounts.MOUNTINFO.read_text()), str(data_dir))
    hidden = [
        data_dir,
        *(path for path in map(Path, others) if path.exists()),
        *(path for path in more if path.exists()),
    ]
    nodes = sorted({path.name for pattern in _DEVICES for path in Path("/dev").glob(pattern)})
    code = platform_code()
    covered = users.barriers([work, *map(Path, code)], (data_dir, Path("/tmp"))) if user else []  # noqa: S108
    groups = users.device_groups(nodes) if user else []
    return [
        ("namespaces", "1"),
        ("folder", str(work)),
        ("temporary", str(temporary)),
        *(("covered", path) for path in covered),
        *(("hidden", str(path)) for path in hidden),
        *(("read-only", path) for path in code),
        *(("read-only", path) for path in _home() if not user),
        *(("device", name) for name in nodes),
        ("user", str(user)),
        *(("user-group", str(group)) for group in groups),
    ]


def _about_walls(walls: bool, refusal: str, first_user: int) -> list[str]:
    if not walls:
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


def _about_limits(groups: ControlGroups) -> list[str]:
    version = f"control groups version {groups.version}"
    memory = f"by {version}" if groups.memory else "for each process alone (no control group can be written)"
    cpu = f"CPU is limited by {version}." if groups.cpu else "CPU is not limited (no control group can be written)."
    processes = (
        f"A pod has at most {cgroups.LEAST_PROCESSES} processes and threads, or {cgroups.PROCESSES_PER_CPU} "
        f"for each CPU if that is more, by {version}."
        if groups.pids
        else "The number of processes is not limited (no control group can be written)."
    )
    return [f"Memory is limited {memory}.", cpu, processes]


def _home() -> list[str]:
    """The home of the server's user: what lies there, such as what a shell runs at its start, is not for jobs to
    change."""
    try:
        home = Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except KeyError:
        return []
    return [str(home)] if home.is_dir() and home not in _NO_HOMES else []


def platform_code() -> list[str]:
    """Where the code lies that the server runs: a job that could write there would be the server at its next start."""
    package = Path(__file__).resolve().parents[2]
    pythons = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()} - {Path("/usr"), Path("/usr/local")}
    return [str(path) for path in (package, *sorted(pythons))]
