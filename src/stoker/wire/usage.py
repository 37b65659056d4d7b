"""What the server answers about usage: GPU-hours, and what they cost where models have prices."""

from datetime import datetime
from typing import Self

from stoker.client.exchange import Answer, Request
from stoker.client.shapes import Shape


class UsageHours(Shape, frozen=True):
    """`free`, `faulty` and `capacity` are None where only what was held is counted; costs, where a price is missing."""

    allocated_gpu_hours: float
    busy_gpu_hours: float
    idle_gpu_hours: float
    starting_gpu_hours: float
    unmeasured_gpu_hours: float
    lost_gpu_hours: float
    free_gpu_hours: float | None
    faulty_gpu_hours: float | None
    capacity_gpu_hours: float | None
    cost: float | None
    idle_cost: float | None


class UsageItem(UsageHours, frozen=True):
    """`workspace`, `user` and `cluster` are of rows that are workloads."""

    key: str
    name: str
    workspace: str | None
    user: str | None
    cluster: str | None


class ClusterReach(Shape, frozen=True):
    """Up to where the hours of a cluster are closed; None when none is."""

    name: str
    simulated: bool
    through: datetime | None


class UsageReport(Shape, frozen=True):
    """One page of a report, and the totals of all of it."""

    by: str
    label: str
    since: datetime
    until: datetime
    through: datetime
    clusters: tuple[ClusterReach, ...]
    currency: str
    prices: dict[str, float]
    unpriced_models: tuple[str, ...]
    totals: UsageHours
    items: tuple[UsageItem, ...]
    total: int
    next: int | None


class WasteItem(Shape, frozen=True):
    """A workload with idle GPUs; how long is None when it is not known."""

    workload_id: str
    uid: str
    name: str
    kind: str
    cluster: str
    namespace: str
    workspace: str
    user: str
    models: str
    gpus: float
    idle_gpus: float
    idle_since: datetime | None
    idle_seconds: int | None
    idle_gpu_hours: float
    cost: float | None
    stop_command: str


class WasteReport(Shape, frozen=True):
    """One page of what is held and not used, and all of it together; `threshold` is in percent."""

    at: datetime
    threshold: float
    least_seconds: int
    currency: str
    prices: dict[str, float]
    unpriced_models: tuple[str, ...]
    idle_gpus: float
    idle_gpu_hours: float
    cost: float | None
    items: tuple[WasteItem, ...]
    total: int
    next: int | None


class Sheet(Shape, frozen=True):
    """A file as the server wrote it."""

    content: bytes

    @classmethod
    def of_answer(cls, request: Request, answer: Answer) -> Self | None:
        return cls(content=answer.body) if answer.status == 200 else None
