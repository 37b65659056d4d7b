"""Names and numbers of the Run:ai family, and their meaning in Stoker."""

from stoker.domain.clock import format_rfc3339
from stoker.domain.queries.workload_query import PRIORITY_CLASSES, priority_class_of
from stoker.domain.workload.spec import Category, Kind

ORIGIN = "runai"
ORIGIN_V2 = "runai-v2"
"""`origin_api` of workloads submitted through this family; the second for manifests."""
TENANT_ID = 1
"""The only tenant: this installation."""
PRIORITIES = PRIORITY_CLASSES
DEPRECATED_PRIORITIES = {"train": 50, "interactive-preemptible": 75, "build": 100, "inference": 125}
"""Deprecated names; accepted, and shown as the nearest current one."""
MIN_NON_PREEMPTIBLE_PRIORITY = 100
"""By default workloads of this priority and above are not preemptible."""
DEFAULT_PRIORITY = {Category.BUILD: "high", Category.TRAIN: "low", Category.DEPLOY: "high"}
KINDS_BY_TYPE = {
    "workspaces": (Kind.AUTHORING,),
    "trainings": (Kind.JOB,),
    "distributed": (Kind.PYTORCH_JOB,),
    "inferences": (Kind.DEPLOYMENT, Kind.STATEFUL_SET),
}
"""The kinds of each Run:ai workload type."""


priority_class = priority_class_of


def optional_rfc3339(at: int | None) -> str | None:
    """A time in RFC 3339; null if it has not happened."""
    return None if at is None else format_rfc3339(at)


def to_number(milli: int) -> float:
    """A milli amount as a number; an integer if it is whole."""
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
