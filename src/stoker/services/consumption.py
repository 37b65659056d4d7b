"""What a workload asked for, held and used over a range: so many samples, each the last moment of an equal part."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from stoker.domain.errors import StokerError, bad_request, not_found
from stoker.domain.permissions import Action, Actor, Target
from stoker.domain.readings import Metric
from stoker.domain.resources import MILLI
from stoker.domain.series import GpuLine, Holding, Point, Range, Series
from stoker.domain.workload import Pod, Workload
from stoker.services.context import Context, authorise
from stoker.store import inventory_rows, monitoring, nodes, pods, workloads
from stoker.store.base import Transaction
from stoker.store.inventory_rows import HeldSpan


class Measure(StrEnum):
    GPU_UTILIZATION = "gpu_utilization"
    GPU_MEMORY_USED = "gpu_memory_used"
    GPU_MEMORY_REQUESTED = "gpu_memory_requested"
    GPU_ALLOCATED = "gpu_allocated"
    CPU_REQUESTED = "cpu_requested"
    MEMORY_REQUESTED = "memory_requested"
    PODS = "pods"
    RUNNING_PODS = "running_pods"


READ = {Measure.GPU_UTILIZATION: Metric.UTILIZATION, Measure.GPU_MEMORY_USED: Metric.MEMORY_USED}
"""What comes from readings, and from which; the rest is known without."""
GpuMemory = Mapping[tuple[str, int], int]


class Known(Struct, frozen=True):
    """Everything that is written of a workload and a range."""

    workload: Workload
    pods: Sequence[Pod]
    held: Sequence[HeldSpan]
    holdings: list[Holding]
    memory: GpuMemory


class Consumed(Struct, frozen=True):
    """The samples of each measure, and why those that are missing could not be read."""

    values: Mapping[Measure, list[Point]]
    failed: Mapping[Measure, StokerError]


class Consumption:
    def __init__(self, context: Context, series: Series) -> None:
        self._context = context
        self._series = series

    async def read(
        self, actor: Actor, ref: str, start: int, end: int, samples: int, measures: Sequence[Measure]
    ) -> Consumed:
        if end <= start:
            raise bad_request("end", "it is not after start. Use a time that is later than start.")
        span = span_of(start, end, samples)
        known = await self._context.store.read(lambda tx: _known(tx, actor, ref, span))
        if not samples:
            return Consumed({measure: [] for measure in measures}, {})
        now = self._context.clock.now()
        moments = [at for at in range(span.start, span.end + 1, span.step) if at <= now]
        values: dict[Measure, list[Point]] = {
            measure: _counted(known, measure, moments) for measure in measures if measure not in READ
        }
        failed: dict[Measure, StokerError] = {}
        wanted = [measure for measure in measures if measure in READ]
        for measure, found in zip(
            wanted, await asyncio.gather(*(self._read(known, measure, span) for measure in wanted)), strict=True
        ):
            if isinstance(found, StokerError):
                failed[measure] = found
            else:
                values[measure] = found
        return Consumed(values, failed)

    async def _read(self, known: Known, measure: Measure, span: Range) -> list[Point] | StokerError:
        if not known.holdings:
            return []
        metric = READ[measure]
        try:
            found = await self._series.gpus(known.workload.cluster_id, known.holdings, [metric], span)
        except StokerError as error:
            return error
        lines = found.get(metric, [])
        if measure is Measure.GPU_UTILIZATION:
            return _joined(lines, lambda line, value: value * 100, mean=True)
        return _joined(lines, lambda line, value: value * known.memory.get((line.node, line.device), 0), mean=False)


def span_of(start: int, end: int, samples: int) -> Range:
    """The last moment of each of so many equal parts of a range."""
    step = max(1, (end - start) // max(1, samples))
    return Range(start + step, start + step * max(1, samples), step)


def _known(transaction: Transaction, actor: Actor, ref: str, span: Range) -> Known:
    workload = workloads.find(transaction, ref)
    if workload is None or not (actor.admin or workload.workspace_id in actor.memberships):
        raise not_found("workload", ref)
    authorise(actor, Action.WORKLOAD_READ, Target(workspace_id=workload.workspace_id))
    holdings = monitoring.holdings(transaction, workload.uid, span.start - span.step, span.end)
    places = {each.node for each in holdings}
    memory = {
        (node.name, device.index): device.memory_bytes
        for node in (nodes.of_cluster(transaction, workload.cluster_id) if places else [])
        if node.name in places
        for device in node.devices
    }
    return Known(
        workload,
        pods.of_workload(transaction, workload.uid),
        inventory_rows.held_spans(transaction, workload.uid),
        holdings,
        memory,
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


def _joined(lines: Sequence[GpuLine], scaled: Callable[[GpuLine, float], float], *, mean: bool) -> list[Point]:
    """All GPUs as one line: their mean, or their sum."""
    sums: dict[int, list[float]] = defaultdict(list)
    for line in lines:
        for value, at in line.points:
            sums[at].append(scaled(line, value))
    return [(sum(values) / (len(values) if mean else 1), at) for at, values in sorted(sums.items())]
