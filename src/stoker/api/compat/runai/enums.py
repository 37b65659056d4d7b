"""The words and numbers of the Run:ai family, and what they are here."""

from stoker.domain.clock import rfc3339
from stoker.domain.inventory import PRIORITY_CLASSES, class_of
from stoker.domain.workload import Category, Kind

API = "runai"
API_V2 = "runai-v2"
"""What workloads are marked with that come through this family; the second as manifests."""
TENANT_ID = 1
"""There is one tenant: this installation."""
PRIORITIES = PRIORITY_CLASSES
OLD_PRIORITIES = {"train": 50, "interactive-preemptible": 75, "build": 100, "inference": 125}
"""Names of before; they are taken, and shown by the nearest of the present ones."""
NOT_PREEMPTED = 100
"""From this priority on a workload is not preemptible, unless it says so."""
DEFAULT_PRIORITY = {Category.BUILD: "high", Category.TRAIN: "low", Category.DEPLOY: "high"}
TYPES = {
    "workspaces": (Kind.AUTHORING,),
    "trainings": (Kind.JOB,),
    "distributed": (Kind.PYTORCH_JOB,),
    "inferences": (Kind.DEPLOYMENT, Kind.STATEFUL_SET),
}
"""Which of our kinds each of their types of workloads is."""


priority_class = class_of


def moment(at: int | None) -> str | None:
    """A time as this family writes it: one that has not come is null."""
    return None if at is None else rfc3339(at)


def number(milli: int) -> float:
    """Thousandths as a number, whole where it is whole."""
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
