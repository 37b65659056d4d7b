"""How `lens` says things: statuses and their colours, sources, GPUs by model, capacities."""

import math
from collections.abc import Mapping
from typing import Literal

from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.resources import MILLI
from stoker.domain.workload import Phase

Status = Literal["Running", "Completed", "Failed", "Pending", "Unknown"]
STATUSES: dict[Phase, Status] = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.INITIALIZING: "Pending",
    Phase.RESUMING: "Pending",
    Phase.RUNNING: "Running",
    Phase.DEGRADED: "Running",
    Phase.UPDATING: "Running",
    Phase.STOPPING: "Running",
    Phase.TERMINATING: "Running",
    Phase.DELETING: "Running",
    Phase.COMPLETED: "Completed",
    Phase.FAILED: "Failed",
    Phase.STOPPED: "Unknown",
    Phase.UNKNOWN: "Unknown",
}
COLOURS: dict[Status, str] = {
    "Running": "green",
    "Completed": "green",
    "Failed": "red",
    "Pending": "yellow",
    "Unknown": "gray",
}
API_VERSIONS = {
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "PyTorchJob": "kubeflow.org/v1",
    "Authoring": "kubeflow.org/v1",
}
TERA = 10**12
GIGA = 10**9


def phases_of(status: Status | None) -> tuple[Phase, ...]:
    """Every inner phase that is shown by this word; none at all when no word is given."""
    return tuple(phase for phase, word in STATUSES.items() if word == status)


def source(engine: str) -> str:
    return "k8s" if engine == "kubernetes" else engine


def seconds(at: int | None) -> int:
    """Unix seconds; 0 for what has not happened."""
    return 0 if at is None else at // 1000


def whole_gpus(milli: int) -> int:
    return -(-milli // MILLI)


def allocation(gpus: Mapping[str, int]) -> dict[str, int]:
    """Whole GPUs by model, without blanks in the model."""
    return {"_".join(model.split()): whole_gpus(milli) for model, milli in gpus.items()}


def terabytes(size: int) -> float:
    """As exactly as it is shown, so that what is shown adds up."""
    return round(size / TERA, 3)


def capacity(tera: float) -> str:
    return f"{_short(tera)}TB"


def gigabits(bits_per_second: int) -> str:
    return f"{_short(bits_per_second / GIGA)}Gbps"


def axis_top(documented: int, highest: float) -> int:
    """The documented end of an axis, or the next 50 above what is to be shown."""
    return documented if highest <= documented else (math.floor(highest / 50) + 1) * 50


def unknown_workload(uid: str) -> StokerError:
    return StokerError(ErrorCode.NOT_FOUND, f"Workload with UID '{uid}' not found")


def _short(value: float) -> str:
    """At most three digits behind the point, and none that say nothing."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
