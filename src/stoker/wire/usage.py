"""Usage reports in GPU-hours, and allocated GPUs that are idle now. Costs are null where a model has no price."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from stoker.domain.usage.report import UsageGroupBy
from stoker.wire.base import WireStruct
from stoker.wire.timestamps import Timestamp

RetainedFrom = Annotated[
    datetime, Meta(description="Usage before this moment is no longer kept; null where the report begins later.")
]
Prices = Annotated[dict[str, float], Meta(description="Of an hour of a GPU, by model; `*` is of all others.")]
GpuHours = Annotated[float, Meta(description="GPU-hours.")]
LostGpuHours = Annotated[float, Meta(description="GPU-hours that were held while the GPU was faulty.")]
OpenGpuHours = Annotated[
    float, Meta(description="GPU-hours that were held in hours that are not closed yet, the one under way among them.")
]
ClosingHours = Annotated[int, Meta(description="Hours of the range that are over and not closed yet.")]
OpenUntil = Annotated[
    datetime, Meta(description="Up to when open hours are in it; null when every hour of the range is closed.")
]
Money = Annotated[float, Meta(description="By the prices of the settings; null where a model has none.")]


class UsageHours(WireStruct, frozen=True, kw_only=True):
    """`free`, `faulty` and `capacity` are null where a row counts only allocated GPUs."""

    allocated_gpu_hours: GpuHours
    busy_gpu_hours: GpuHours
    idle_gpu_hours: GpuHours
    starting_gpu_hours: GpuHours
    unmeasured_gpu_hours: GpuHours
    lost_gpu_hours: LostGpuHours
    open_gpu_hours: OpenGpuHours
    free_gpu_hours: GpuHours | None
    faulty_gpu_hours: GpuHours | None
    capacity_gpu_hours: GpuHours | None
    cost: Money | None
    idle_cost: Money | None


class UsageItem(WireStruct, frozen=True, kw_only=True):
    """`key` is stable: an id, or the name of a thing without id. Workspace, user and cluster are set only on rows of
    workloads; the other fields are those of the totals."""

    key: str
    name: str
    workspace: str | None = None
    user: str | None = None
    cluster: str | None = None
    allocated_gpu_hours: GpuHours
    busy_gpu_hours: GpuHours
    idle_gpu_hours: GpuHours
    starting_gpu_hours: GpuHours
    unmeasured_gpu_hours: GpuHours
    lost_gpu_hours: LostGpuHours
    open_gpu_hours: OpenGpuHours
    free_gpu_hours: GpuHours | None
    faulty_gpu_hours: GpuHours | None
    capacity_gpu_hours: GpuHours | None
    cost: Money | None
    idle_cost: Money | None


class ClusterReach(WireStruct, frozen=True):
    name: str
    simulated: bool
    through: Annotated[datetime, Meta(description="The end of its last closed hour; null when it has none.")] | None
    closing_hours: ClosingHours


class UsageView(WireStruct, frozen=True):
    """Whole hours from `since` to `until`. All amounts except open ones lie before `through`, the end of the last
    closed hour, unless one cluster is ahead of another. `closingHours` is that of the cluster furthest behind."""

    by: UsageGroupBy
    label: str
    since: Timestamp
    until: Timestamp
    through: Timestamp
    kept_from: RetainedFrom | None
    open_until: OpenUntil | None
    closing_hours: ClosingHours
    clusters: tuple[ClusterReach, ...]
    currency: str
    prices: Prices
    unpriced_models: tuple[str, ...]
    totals: UsageHours
    items: tuple[UsageItem, ...]
    total: int
    next: int | None


class WasteItem(WireStruct, frozen=True):
    """A workload with idle GPUs; `idleSince` is that of the GPU that is idle longest, null if unknown."""

    workload_id: str
    uid: str
    name: str
    kind: str
    cluster: str
    namespace: str
    workspace: str
    user: str
    models: str
    gpus: Annotated[float, Meta(description="GPUs that it holds.")]
    idle_gpus: Annotated[float, Meta(description="Those of them that are idle.")]
    idle_since: Timestamp | None
    idle_seconds: int | None
    idle_gpu_hours: GpuHours
    cost: Money | None
    stop_command: str


class WasteView(WireStruct, frozen=True):
    """`idleGpus`, `idleGpuHours` and `cost` are totals of all items, not only of this page."""

    at: Timestamp
    threshold: float
    least_seconds: int
    currency: str
    prices: Prices
    unpriced_models: tuple[str, ...]
    idle_gpus: float
    idle_gpu_hours: GpuHours
    cost: Money | None
    items: tuple[WasteItem, ...]
    total: int
    next: int | None
