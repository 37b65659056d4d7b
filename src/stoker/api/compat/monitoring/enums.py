"""Statuses and their colours, sources, GPUs by model and capacities of the monitoring family."""

import math
from collections.abc import Mapping
from typing import Literal

from stoker.domain.cluster.resources import MILLI
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import Phase

Status = Literal["Running", "Completed", "Failed", "Pending", "Unknown"]
STATUS_BY_PHASE: dict[Phase, Status] = {
    Phase.CREATING: "Pending",
    Phase.PENDING: "Pending",
    Phase.SUBMITTED: "Pending",
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
COLOR_BY_STATUS: dict[Status, str] = {
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
SOURCE_BY_ENGINE = {"kubernetes": "k8s"}
TERA = 10**12
GIGA = 10**9


def phases_with_status(status: Status | None) -> tuple[Phase, ...]:
    """The domain phases that are shown under this status; empty without a status."""
    return tuple(phase for phase, word in STATUS_BY_PHASE.items() if word == status)


def source_name(engine: str) -> str:
    """The document's word for an engine; the others are called by their own name."""
    return SOURCE_BY_ENGINE.get(engine, engine)


def to_unix_seconds(at: int | None) -> int:
    """Unix seconds; 0 if it has not happened."""
    return 0 if at is None else at // 1000


def round_up_gpus(milli: int) -> int:
    return -(-milli // MILLI)


def gpus_by_model(gpus: Mapping[str, int]) -> dict[str, int]:
    """Whole GPUs by model, with `_` for spaces in the model."""
    return {"_".join(model.split()): round_up_gpus(milli) for model, milli in gpus.items()}


def to_terabytes(size: int) -> float:
    """Rounded as displayed, so that displayed values add up."""
    return round(size / TERA, 3)


def format_terabytes(tera: float) -> str:
    return f"{_trim_decimals(tera)}TB"


def format_gigabits(bits_per_second: int) -> str:
    return f"{_trim_decimals(bits_per_second / GIGA)}Gbps"


def axis_maximum(documented: int, highest: float) -> int:
    """The documented maximum of an axis, or the next multiple of 50 above the data."""
    return documented if highest <= documented else (math.floor(highest / 50) + 1) * 50


def workload_not_found(uid: str) -> StokerError:
    return StokerError(ErrorCode.NOT_FOUND, f"Workload with UID '{uid}' not found")


def _trim_decimals(value: float) -> str:
    """At most three decimals, without trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".")
