"""How well this machine can keep a job apart from the platform, tried out rather than guessed."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from stoker.domain.errors import ErrorCode, StokerError
from stoker.engines.local import cgroups, mounts
from stoker.engines.local.cgroups import ControlGroups
from stoker.engines.local.keeper import order
from stoker.engines.local.keeper.folder import ORDER
from stoker.engines.local.launch import SHIM

_DEVICES = (
    *("null", "zero", "full", "random", "urandom", "tty", "fuse", "kvm", "hugepages"),
    *("kfd", "dri", "accel", "infiniband", "nvidia*"),
)
_PROBE_SECONDS = 20.0


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


def containment(wanted: ContainmentMode = ContainmentMode.AUTO) -> Containment:
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
        sentences=(*_about_walls(walls, refusal), *_about_limits(groups)),
    )


def probe() -> str:
    """Build a pod's walls around nothing; why that failed, or nothing."""
    with tempfile.TemporaryDirectory(prefix="stoker-probe-") as name:
        folder = Path(name).resolve()
        (folder / "hidden" / "work").mkdir(parents=True)
        (folder / ORDER).write_bytes(order.encode(walls_of(folder / "hidden", folder / "hidden" / "work")))
        command = [sys.executable, "-I", "-S", SHIM, "--probe", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, env={}, timeout=_PROBE_SECONDS, check=False)
    return "" if done.returncode == 0 else (done.stdout or done.stderr).strip().splitlines()[-1]


def walls_of(data_dir: Path, work: Path, more: Iterable[Path] = ()) -> list[tuple[str, str]]:
    """The part of a launch order that says what a pod sees: not the data directory, under whatever path."""
    others = mounts.aliases(mounts.parse(mounts.MOUNTINFO.read_text()), str(data_dir))
    hidden = [
        data_dir,
        *(path for path in map(Path, others) if path.exists()),
        *(path for path in more if path.exists()),
    ]
    nodes = sorted({path.name for pattern in _DEVICES for path in Path("/dev").glob(pattern)})
    return [
        ("namespaces", "1"),
        ("folder", str(work)),
        *(("hidden", str(path)) for path in hidden),
        *(("read-only", path) for path in platform_code()),
        *(("device", name) for name in nodes),
    ]


def _about_walls(walls: bool, refusal: str) -> list[str]:
    if not walls:
        why = f" ({refusal})" if refusal else ""
        return [
            f"Jobs run without namespaces{why}: they are stopped with all their children, but a job can read the data "
            "directory and signal other processes of this user. Run only jobs that you trust.",
        ]
    said = ["Each pod has its own process tree and /dev, and sees of the data directory only its workload's folder."]
    if os.geteuid() == 0:
        said.append(
            "Jobs run as root without the privileges to undo this, but they can change system files. "
            "Run Stoker as an ordinary user if jobs are not to be trusted with the machine."
        )
    else:
        said.append("Jobs run in a user namespace and have this user's rights to the rest of the machine.")
    return said


def _about_limits(groups: ControlGroups) -> list[str]:
    version = f"control groups version {groups.version}"
    memory = f"by {version}" if groups.memory else "for each process alone (no control group can be written)"
    cpu = f"CPU is limited by {version}." if groups.cpu else "CPU is not limited (no control group can be written)."
    return [f"Memory is limited {memory}.", cpu]


def platform_code() -> list[str]:
    """Where the code lies that the server runs: a job that could write there would be the server at its next start."""
    package = Path(__file__).resolve().parents[2]
    pythons = {Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()} - {Path("/usr"), Path("/usr/local")}
    return [str(path) for path in (package, *sorted(pythons))]
