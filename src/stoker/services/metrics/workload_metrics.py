"""What a workload, or one pod of it, asked for, held, used and served over a range: so many samples, each the last
moment of an equal part."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.clock import HOUR_MS, MINUTE_MS
from stoker.domain.errors import StokerError, bad_request, not_found
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.pod_samples import HISTOGRAMS, PodMetric
from stoker.domain.readings import Metric
from stoker.domain.resources import MILLI
from stoker.domain.series import GpuLine, Holding, Point, Range, Series
from stoker.domain.workload import Pod, Workload
from stoker.services.context import Context, authorise
from stoker.services.pod_parts import Histogram, PodParts
from stoker.store import inventory_rows, monitoring, nodes, pod_samples, pods, workloads
from stoker.store.base import Transaction
from stoker.store.inventory_rows import HeldSpan


class Measure(StrEnum):
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
    REQUESTS_MOST = "requests_most"
    REQUESTS_SUCCEEDED = "requests_succeeded"
    REQUESTS_FAILED = "requests_failed"
    CACHE_USED = "cache_used"
    THROUGHPUT = "throughput"
    LATENCY = "latency"
    LATENCIES = "latencies"
    FIRST_TOKENS = "first_tokens"


OF_GPUS = {Measure.GPU_UTILIZATION: Metric.UTILIZATION, Measure.GPU_MEMORY_USED: Metric.MEMORY_USED}
"""What comes from readings of GPUs, and from which."""
OF_PODS: Mapping[Measure, Callable[[PodParts], list[Point]]] = {
    Measure.CPU_USED: lambda said: [(value / MILLI, at) for value, at in said.sums(PodMetric.CPU_MILLI)],
    Measure.MEMORY_USED: lambda said: said.sums(PodMetric.MEMORY_BYTES),
    Measure.REQUESTS_RUNNING: lambda said: said.sums(PodMetric.REQUESTS_RUNNING),
    Measure.REQUESTS_WAITING: lambda said: said.sums(PodMetric.REQUESTS_WAITING),
    Measure.REQUESTS_MOST: lambda said: said.sums(PodMetric.REQUESTS_MOST),
    Measure.REQUESTS_SUCCEEDED: lambda said: said.lasts(PodMetric.SUCCEEDED),
    Measure.REQUESTS_FAILED: lambda said: said.lasts(PodMetric.FAILED),
    Measure.CACHE_USED: lambda said: said.means(PodMetric.CACHE_USED),
    Measure.THROUGHPUT: PodParts.throughput,
    Measure.LATENCY: PodParts.latency,
}
DISTRIBUTED = dict(zip((Measure.FIRST_TOKENS, Measure.LATENCIES), HISTOGRAMS, strict=True))
"""What comes as a histogram for each part."""
BEFORE_MS = 10 * MINUTE_MS
"""How long before the range the last word of a pod is looked for, to know what its counts began at."""
MOST_POD_HOURS = 100_000
"""Of pods together, as far as what they said is read for one answer."""
GpuMemory = Mapping[tuple[str, int], int]


class Known(Struct, frozen=True):
    """Everything that is written of a workload, or of one of its pods, and a range."""

    workload: Workload
    pods: Sequence[Pod]
    held: Sequence[HeldSpan]
    holdings: list[Holding]
    memory: GpuMemory
    said: PodParts


class Consumed(Struct, frozen=True):
    """The samples of each measure, those of each GPU by its number, and why what is missing could not be read."""

    values: Mapping[Measure, list[Point]]
    histograms: Mapping[Measure, list[tuple[Histogram, int]]] = {}
    gpus: Mapping[Measure, Mapping[int, list[Point]]] = {}
    failed: Mapping[Measure, StokerError] = {}


class Consumption:
    def __init__(self, context: Context, series: Series) -> None:
        self._context = context
        self._series = series

    async def read(
        self, actor: Actor, ref: str, start: int, end: int, samples: int, measures: Sequence[Measure], pod: str = ""
    ) -> Consumed:
        """Of all its pods together, or of the one that is named."""
        if end <= start:
            raise bad_request("end", "it is not after start. Use a time that is later than start.")
        span = span_of(start, end, samples)
        spoken = bool(samples) and any(measure in OF_PODS or measure in DISTRIBUTED for measure in measures)
        known = await self._context.store.read(lambda tx: _known(tx, actor, ref, span, pod, spoken=spoken))
        if not samples:
            return Consumed({measure: [] for measure in measures})
        now = self._context.clock.now()
        moments = [at for at in range(span.start, span.end + 1, span.step) if at <= now]
        values: dict[Measure, list[Point]] = {}
        for measure in measures:
            if measure in OF_PODS:
                values[measure] = OF_PODS[measure](known.said)
            elif measure not in OF_GPUS and measure not in DISTRIBUTED:
                values[measure] = _counted(known, measure, moments)
        histograms = {each: known.said.histograms(DISTRIBUTED[each]) for each in measures if each in DISTRIBUTED}
        gpus: dict[Measure, Mapping[int, list[Point]]] = {}
        failed: dict[Measure, StokerError] = {}
        wanted = [measure for measure in measures if measure in OF_GPUS]
        answers = await asyncio.gather(*(self._lines(known, measure, span) for measure in wanted))
        for measure, found in zip(wanted, answers, strict=True):
            if isinstance(found, StokerError):
                failed[measure] = found
            else:
                values[measure] = _joined(found, mean=measure is Measure.GPU_UTILIZATION)
                gpus[measure] = {line.device: line.points for line in found}
        return Consumed(values, histograms, gpus, failed)

    async def _lines(self, known: Known, measure: Measure, span: Range) -> list[GpuLine] | StokerError:
        """What each GPU showed, in percent or bytes."""
        if not known.holdings:
            return []
        metric = OF_GPUS[measure]
        try:
            found = await self._series.gpus(known.workload.cluster_id, known.holdings, [metric], span)
        except StokerError as error:
            return error
        percent = measure is Measure.GPU_UTILIZATION
        return [
            _scaled(line, 100 if percent else known.memory.get((line.node, line.device), 0))
            for line in found.get(metric, [])
        ]


def span_of(start: int, end: int, samples: int) -> Range:
    """The last moment of each of so many equal parts of a range; none is shorter than a millisecond."""
    parts = max(1, min(samples, end - start))
    step = (end - start) // parts
    return Range(start + step, start + step * parts, step)


def _known(transaction: Transaction, actor: Actor, ref: str, span: Range, pod: str, *, spoken: bool) -> Known:
    workload = workloads.find(transaction, ref)
    if workload is None or not (actor.admin or workload.workspace_id in actor.memberships):
        raise not_found("workload", ref)
    authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=workload.workspace_id))
    every = pods.named(transaction, workload.uid, pod)[:1] if pod else pods.of_workload(transaction, workload.uid)
    if pod and not every:
        raise not_found("pod", pod)
    begin = span.start - span.step
    if pod:
        holdings = monitoring.holdings_of_pod(transaction, every[0].uid, begin, span.end)
    else:
        holdings = monitoring.holdings(transaction, workload.uid, begin, span.end)
    places = {each.node for each in holdings}
    memory = {
        (node.name, device.index): device.memory_bytes
        for node in (nodes.of_cluster(transaction, workload.cluster_id) if places else [])
        if node.name in places
        for device in node.devices
    }
    said = PodParts(span)
    if spoken:
        there = {each.uid: each for each in every if each.created_at <= span.end and (each.ended_at or begin) >= begin}
        from_at = begin - BEFORE_MS
        _check_length(there.values(), from_at, span.end)
        found = pod_samples.blocks(transaction, workload.cluster_id, there, from_at, span.end + 1)
        said.add(found, there, from_at)
    return Known(workload, every, inventory_rows.held_spans(transaction, workload.uid), holdings, memory, said)


def _check_length(found: Iterable[Pod], from_at: int, to_at: int) -> None:
    """So much is read that the answer would take long: refused rather than to keep everybody waiting."""
    lives = ((max(pod.created_at, from_at), min(pod.ended_at or to_at, to_at)) for pod in found)
    hours = sum(max(0, end - begin) // HOUR_MS + 1 for begin, end in lives)
    if hours > MOST_POD_HOURS:
        raise bad_request(
            "start",
            f"its pods ran {hours} hours together in this range, and {MOST_POD_HOURS} are the most. "
            "Use a shorter range, or ask for single pods.",
        )


def _counted(known: Known, measure: Measure, moments: Sequence[int]) -> list[Point]:
    """What is known of each moment of its life, from what was written when it changed."""
    life = [at for at in moments if at >= known.workload.submitted_at]
    if measure is Measure.GPU_ALLOCATED:
        return [
            (sum(each.gpu_milli for each in known.held if _lies(at, each.from_at, each.to_at)) / MILLI, at)
            for at in life
        ]
    return [
        (_of_pods([pod for pod in known.pods if _lies(at, pod.created_at, pod.ended_at)], measure, at), at)
        for at in life
    ]


def _of_pods(found: Sequence[Pod], measure: Measure, at: int) -> float:
    match measure:
        case Measure.PODS:
            return len(found)
        case Measure.RUNNING_PODS:
            return sum(pod.started_at is not None and pod.started_at <= at for pod in found)
        case Measure.CPU_REQUESTED:
            return sum(pod.resources.cpu_milli for pod in found) / MILLI
        case Measure.MEMORY_REQUESTED:
            return sum(pod.resources.memory_bytes for pod in found)
        case _:
            return 0


def _lies(at: int, begin: int, end: int | None) -> bool:
    return begin <= at and (end is None or at < end)


def _scaled(line: GpuLine, scale: float) -> GpuLine:
    return GpuLine(line.node, line.device, [(value * scale, at) for value, at in line.points])


def _joined(lines: Sequence[GpuLine], *, mean: bool) -> list[Point]:
    """All GPUs as one line: their mean, or their sum."""
    sums: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for value, at in line.points:
            sums[at].append(value)
    return [(sum(values) / (len(values) if mean else 1), at) for at, values in sorted(sums.items())]
