"""Metrics of a workload, or of one pod, over a range: requests, allocations, usage and inference metrics.

A range is divided into equal steps, and each sample is the end of a step.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct, structs

from stoker.domain.access.permission_rules import Action
from stoker.domain.access.permissions import Actor, Target
from stoker.domain.clock import HOUR_MS, MINUTE_MS
from stoker.domain.cluster.gpu_identity import gpu_key
from stoker.domain.cluster.resources import MILLI
from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import StokerError, bad_request, not_found
from stoker.domain.metrics.pod_samples import HISTOGRAM_METRICS, PodMetric
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, RangeBackend, SeriesPoint, TimeRange, merge_places
from stoker.domain.workload.model import Workload
from stoker.domain.workload.pod import Pod
from stoker.services.context import Context, authorise
from stoker.services.metrics.pod_aggregation import Histogram, PodAggregator
from stoker.store.cluster import nodes
from stoker.store.db.base import Transaction
from stoker.store.telemetry import pod_samples
from stoker.store.workloads import fleet_workloads, pods, rows, summaries
from stoker.store.workloads.summaries import AllocationSpan


class WorkloadMetric(StrEnum):
    GPU_UTILIZATION = "gpu_utilization"
    GPU_MEMORY_USED = "gpu_memory_used"
    GPU_MEMORY_REQUESTED = "gpu_memory_requested"
    GPU_ALLOCATED = "gpu_allocated"
    CPU_USED = "cpu_used"
    CPU_REQUESTED = "cpu_requested"
    MEMORY_USED = "memory_used"
    MEMORY_REQUESTED = "memory_requested"
    PODS = "pods"
    RUNNING_PODS = "running_pods"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    MAX_REQUESTS = "requests_most"
    REQUESTS_SUCCEEDED = "requests_succeeded"
    REQUESTS_FAILED = "requests_failed"
    CACHE_USED = "cache_used"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    LATENCY_HISTOGRAM = "latencies"
    TIME_TO_FIRST_TOKEN = "first_tokens"


GPU_METRICS = {
    WorkloadMetric.GPU_UTILIZATION: GpuMetric.UTILIZATION,
    WorkloadMetric.GPU_MEMORY_USED: GpuMetric.MEMORY_USED,
}
"""Metrics read from GPU samples."""
POD_METRICS: Mapping[WorkloadMetric, Callable[[PodAggregator], list[SeriesPoint]]] = {
    WorkloadMetric.CPU_USED: lambda aggregates: [
        (value / MILLI, at) for value, at in aggregates.sum_points(PodMetric.CPU_MILLI)
    ],
    WorkloadMetric.MEMORY_USED: lambda aggregates: aggregates.sum_points(PodMetric.MEMORY_BYTES),
    WorkloadMetric.REQUESTS_RUNNING: lambda aggregates: aggregates.sum_points(PodMetric.REQUESTS_RUNNING),
    WorkloadMetric.REQUESTS_WAITING: lambda aggregates: aggregates.sum_points(PodMetric.REQUESTS_WAITING),
    WorkloadMetric.MAX_REQUESTS: lambda aggregates: aggregates.sum_points(PodMetric.MAX_REQUESTS),
    WorkloadMetric.REQUESTS_SUCCEEDED: lambda aggregates: aggregates.last_points(PodMetric.REQUESTS_SUCCEEDED),
    WorkloadMetric.REQUESTS_FAILED: lambda aggregates: aggregates.last_points(PodMetric.REQUESTS_FAILED),
    WorkloadMetric.CACHE_USED: lambda aggregates: aggregates.mean_points(PodMetric.KV_CACHE_USAGE),
    WorkloadMetric.THROUGHPUT: PodAggregator.throughput,
    WorkloadMetric.LATENCY: PodAggregator.latency,
}
HISTOGRAM_SOURCES = dict(
    zip((WorkloadMetric.TIME_TO_FIRST_TOKEN, WorkloadMetric.LATENCY_HISTOGRAM), HISTOGRAM_METRICS, strict=True)
)
"""Metrics that are a histogram at each step."""
COUNTER_LOOKBACK_MS = 10 * MINUTE_MS
"""How long before the range samples are read, to find the start value of counters."""
MAX_POD_HOURS = 100_000
"""The maximum running time of all pods together whose samples are read for one request."""
GpuMemory = Mapping[str, int]


class MetricInputs(Struct, frozen=True):
    """The stored data of a workload, or of one of its pods, in a range."""

    workload: Workload
    pods: Sequence[Pod]
    allocation_spans: Sequence[AllocationSpan]
    allocations: list[DeviceAllocation]
    gpu_memory: GpuMemory
    pod_aggregates: PodAggregator


class WorkloadMetricValues(Struct, frozen=True):
    """The samples of each metric, those of each GPU by its index, and the errors of metrics that could not be read."""

    values: Mapping[WorkloadMetric, list[SeriesPoint]]
    histograms: Mapping[WorkloadMetric, list[tuple[Histogram, int]]] = {}
    gpus: Mapping[WorkloadMetric, Mapping[int, list[SeriesPoint]]] = {}
    errors: Mapping[WorkloadMetric, StokerError] = {}


class WorkloadMetrics:
    def __init__(self, context: Context, series: RangeBackend) -> None:
        self._context = context
        self._series = series

    async def read(
        self,
        actor: Actor,
        ref: str,
        start: int,
        end: int,
        samples: int,
        metrics: Sequence[WorkloadMetric],
        pod: str = "",
    ) -> WorkloadMetricValues:
        """The metrics of all pods together, or of the named pod."""
        if end <= start:
            raise bad_request("end", "it is not after start. Use a time that is later than start.")
        span = range_for_samples(start, end, samples)
        with_pod_samples = bool(samples) and any(
            metric in POD_METRICS or metric in HISTOGRAM_SOURCES for metric in metrics
        )
        inputs = await self._context.store.read(
            lambda tx: _read_inputs(tx, actor, ref, span, pod, with_pod_samples=with_pod_samples)
        )
        if not samples:
            return WorkloadMetricValues({metric: [] for metric in metrics})
        now = self._context.clock.now()
        times = [at for at in range(span.start, span.end + 1, span.step) if at <= now]
        values: dict[WorkloadMetric, list[SeriesPoint]] = {}
        for metric in metrics:
            if metric in POD_METRICS:
                values[metric] = POD_METRICS[metric](inputs.pod_aggregates)
            elif metric not in GPU_METRICS and metric not in HISTOGRAM_SOURCES:
                values[metric] = _points_from_rows(inputs, metric, times)
        histograms = {
            metric: inputs.pod_aggregates.histograms(HISTOGRAM_SOURCES[metric])
            for metric in metrics
            if metric in HISTOGRAM_SOURCES
        }
        gpus: dict[WorkloadMetric, Mapping[int, list[SeriesPoint]]] = {}
        errors: dict[WorkloadMetric, StokerError] = {}
        gpu_metrics = [metric for metric in metrics if metric in GPU_METRICS]
        results = await asyncio.gather(*(self._read_gpu_series(inputs, metric, span) for metric in gpu_metrics))
        for metric, result in zip(gpu_metrics, results, strict=True):
            if isinstance(result, StokerError):
                errors[metric] = result
            else:
                values[metric] = _combine(result, mean=metric is WorkloadMetric.GPU_UTILIZATION)
                gpus[metric] = {series.device: series.points for series in merge_places(result)}
        return WorkloadMetricValues(values, histograms, gpus, errors)

    async def _read_gpu_series(
        self, inputs: MetricInputs, metric: WorkloadMetric, span: TimeRange
    ) -> list[GpuSeries] | StokerError:
        """The series of each GPU, in percent or bytes."""
        if not inputs.allocations:
            return []
        gpu_metric = GPU_METRICS[metric]
        try:
            series = await self._series.query_range(inputs.workload.cluster_id, inputs.allocations, [gpu_metric], span)
        except StokerError as error:
            return error
        is_percent = metric is WorkloadMetric.GPU_UTILIZATION
        return [
            _scale(gpu, 100 if is_percent else inputs.gpu_memory.get(gpu.gpu.key, 0))
            for gpu in series.get(gpu_metric, [])
        ]


def range_for_samples(start: int, end: int, samples: int) -> TimeRange:
    """The ends of `samples` equal steps of a range; a step is at least one millisecond."""
    steps = max(1, min(samples, end - start))
    step = (end - start) // steps
    return TimeRange(start + step, start + step * steps, step)


def _read_inputs(
    transaction: Transaction, actor: Actor, ref: str, span: TimeRange, pod: str, *, with_pod_samples: bool
) -> MetricInputs:
    workload = rows.find(transaction, ref)
    if workload is None or not actor.can_see(workload.workspace_id):
        raise not_found("workload", ref)
    authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=workload.workspace_id))
    workload_pods = (
        pods.find_by_name(transaction, workload.uid, pod)[:1] if pod else pods.of_workload(transaction, workload.uid)
    )
    if pod and not workload_pods:
        raise not_found("pod", pod)
    begin = span.start - span.step
    if pod:
        allocations = fleet_workloads.allocations_of_pod(transaction, workload_pods[0].uid, begin, span.end)
    else:
        allocations = fleet_workloads.allocations_of_workload(transaction, workload.uid, begin, span.end)
    gpus = {allocation.gpu.key for allocation in allocations}
    memory = {
        key: device.memory_bytes
        for node in (nodes.of_cluster(transaction, workload.cluster_id) if gpus else [])
        for device in node.devices
        for key in (gpu_key(node.name, device.index, device.uuid), gpu_key(node.name, device.index, ""))
        if key in gpus
    }
    aggregates = PodAggregator(span)
    if with_pod_samples:
        pods_in_range = {
            each.uid: each
            for each in workload_pods
            if each.created_at <= span.end and (each.ended_at or begin) >= begin
        }
        from_at = begin - COUNTER_LOOKBACK_MS
        _check_pod_hours(pods_in_range.values(), from_at, span.end)
        blocks = pod_samples.read_blocks(transaction, workload.cluster_id, pods_in_range, from_at, span.end + 1)
        aggregates.add_blocks(blocks, pods_in_range, from_at)
    spans = summaries.allocation_spans(transaction, workload.uid)
    return MetricInputs(workload, workload_pods, spans, allocations, memory, aggregates)


def _check_pod_hours(pods_in_range: Iterable[Pod], from_at: int, to_at: int) -> None:
    """Refuse a request that would read so many samples that other requests had to wait."""
    lifetimes = ((max(pod.created_at, from_at), min(pod.ended_at or to_at, to_at)) for pod in pods_in_range)
    hours = sum(max(0, end - begin) // HOUR_MS + 1 for begin, end in lifetimes)
    if hours > MAX_POD_HOURS:
        raise bad_request(
            "start",
            f"its pods ran {hours} hours together in this range, and at most {MAX_POD_HOURS} are possible. "
            "Use a shorter range, or ask for single pods.",
        )


def _points_from_rows(inputs: MetricInputs, metric: WorkloadMetric, times: Sequence[int]) -> list[SeriesPoint]:
    """Metrics that follow from the rows of pods and allocations, at each time since the submission."""
    times = [at for at in times if at >= inputs.workload.submitted_at]
    if metric is WorkloadMetric.GPU_ALLOCATED:
        return [
            (
                sum(span.gpu_milli for span in inputs.allocation_spans if _is_within(at, span.from_at, span.to_at))
                / MILLI,
                at,
            )
            for at in times
        ]
    return [
        (_pod_value([pod for pod in inputs.pods if _is_within(at, pod.created_at, pod.ended_at)], metric, at), at)
        for at in times
    ]


def _pod_value(live_pods: Sequence[Pod], metric: WorkloadMetric, at: int) -> float:
    match metric:
        case WorkloadMetric.PODS:
            return len(live_pods)
        case WorkloadMetric.RUNNING_PODS:
            return sum(pod.started_at is not None and pod.started_at <= at for pod in live_pods)
        case WorkloadMetric.CPU_REQUESTED:
            return sum(pod.resources.cpu_milli for pod in live_pods) / MILLI
        case WorkloadMetric.MEMORY_REQUESTED:
            return sum(pod.resources.memory_bytes for pod in live_pods)
        case _:
            return 0


def _is_within(at: int, begin: int, end: int | None) -> bool:
    return begin <= at and (end is None or at < end)


def _scale(series: GpuSeries, factor: float) -> GpuSeries:
    return structs.replace(series, points=[(value * factor, at) for value, at in series.points])


def _combine(gpus: Sequence[GpuSeries], *, mean: bool) -> list[SeriesPoint]:
    """One series of all GPUs: their mean or their sum."""
    values_by_time: dict[int, list[float]] = defaultdict(list)
    for gpu in gpus:
        for value, at in gpu.points:
            values_by_time[at].append(value)
    return [(sum(values) / (len(values) if mean else 1), at) for at, values in sorted(values_by_time.items())]
