"""What the native API adds for workloads: events, log search, working directories, explanations and metrics."""

from typing import Annotated, Any

from msgspec import Meta

from stoker.domain.metrics.series import SeriesPoint
from stoker.domain.metrics.training import MAX_METRIC_NAME_LENGTH, MAX_METRICS_PER_REPORT, MAX_STEP
from stoker.wire.base import RequestBody, WireStruct
from stoker.wire.timestamps import Timestamp

MetricName = Annotated[
    str, Meta(min_length=1, max_length=MAX_METRIC_NAME_LENGTH, description="Such as loss or tokens_per_second.")
]


class WorkingDirectoryView(WireStruct, frozen=True):
    """`reason` says why a workload cannot start there."""

    path: str
    enterable: bool
    reason: str


class WorkloadEvent(WireStruct, frozen=True):
    seq: int
    at: Timestamp
    workload_id: str
    workspace: str
    kind: str
    phase: str
    reason: str
    message: str


class LogSearchHit(WireStruct, frozen=True):
    pod: str
    attempt: int
    at: Timestamp
    line: str


class LogSearchResult(WireStruct, frozen=True):
    """The last `limit` lines, oldest first."""

    items: tuple[LogSearchHit, ...]


class ExplanationReason(WireStruct, frozen=True):
    """`code` is empty for a workload that is not pending."""

    code: str
    sentence: str


class ResourceAmounts(WireStruct, frozen=True):
    gpu: str
    cpu: str
    memory: str


class ExplanationBlocker(WireStruct, frozen=True):
    """`workloadId` is empty for a workload that the caller may not see. Until `guaranteedUntil` a preemptible workload
    is not preempted."""

    workload_id: str
    phase: str
    why: str
    resource: ResourceAmounts
    guaranteed_until: Timestamp | None


class SuggestedEdit(WireStruct, frozen=True):
    """`patch` is the body of the PATCH that makes the edit."""

    sentence: str
    patch: dict[str, Any]


class WorkloadExplanation(WireStruct, frozen=True):
    workload_id: str
    phase: str
    reason: ExplanationReason
    order: int
    ahead: ResourceAmounts
    blocking: tuple[ExplanationBlocker, ...]
    edits: tuple[SuggestedEdit, ...]


class GpuSeriesView(WireStruct, frozen=True):
    """One GPU, at its place in its last allocation; points are `[value, unix ms]`. `uuid` is empty without one."""

    node: str
    device: int
    points: list[SeriesPoint]
    uuid: str = ""


class GpuMetricsView(WireStruct, frozen=True):
    """Utilization and memory are fractions of one, power is in watts, temperature in degrees Celsius."""

    workload_id: str
    start: Timestamp
    end: Timestamp
    step_seconds: int
    utilization: tuple[GpuSeriesView, ...]
    memory: tuple[GpuSeriesView, ...]
    power: tuple[GpuSeriesView, ...]
    temperature: tuple[GpuSeriesView, ...]
    tflops: list[SeriesPoint]


class TrainingReport(RequestBody, frozen=True, kw_only=True, omit_defaults=True):
    """Metrics of one moment, and of one step if there is one."""

    step: Annotated[int, Meta(ge=0, lt=MAX_STEP)] | None = None
    at: Annotated[str, Meta(max_length=40, description="RFC 3339; now when left out.")] | None = None
    rank: (
        Annotated[int, Meta(ge=0, lt=2**20, description="Of several ranks that say the same, the first counts.")] | None
    ) = None
    metrics: Annotated[dict[MetricName, float], Meta(min_length=1, max_length=MAX_METRICS_PER_REPORT)]


class MetricPoint(WireStruct, frozen=True):
    at: Timestamp
    step: int | None
    value: float


class TrainingCurve(WireStruct, frozen=True):
    """`count` is the number of points in the range; `points` has at most `limit` of them."""

    metric: str
    count: int
    points: tuple[MetricPoint, ...]


class TrainingMetrics(WireStruct, frozen=True):
    """Sorted by the name of the metric."""

    items: tuple[TrainingCurve, ...]
