"""Closes an hour: assigns every GPU-second of capacity to one category, and usage to each workload.

A sample is valid until the next one, but no longer than its validity; this includes the last one before the hour. It
counts only for allocations that existed when it was taken. The first sample of an allocation also covers the time
before it, back to the start of the hour or of the allocation, if that is at most half its validity. All rollups use the
same samples and the same ledger.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.resources import MILLI
from stoker.domain.intervals import Interval, intersect, merge_intervals, subtract, total_length
from stoker.domain.usage.ledger import HourUsage, LedgerEntry, ReplicaStats, UsageCategory, WorkloadUsage
from stoker.usage.inputs import AllocationIntervals, HourInputs, IntArray
from stoker.usage.intervals import Concurrency, GpuPresence
from stoker.usage.statistics import SampleStatistics, gather_statistics

CATEGORIES = tuple(UsageCategory)
CATEGORY_COLUMNS = {category: index for index, category in enumerate(CATEGORIES)}
UNALLOCATED = ""
ALLOCATION_BATCH_SIZE = 2048
"""Allocations per numpy operation: large enough for speed, small enough for memory."""


class _LedgerBuilder:
    """Amounts by row and category. A row is an owner and a model; every model has a row for unallocated time."""

    def __init__(self, hour: HourInputs, allocations: AllocationIntervals) -> None:
        self.models = sorted(set(hour.models))
        number = {model: index for index, model in enumerate(self.models)}
        self.gpu_model_index = np.array([number[model] for model in hour.models], np.int64)
        self._owners = [UNALLOCATED, *allocations.owners]
        keys = (allocations.owner + 1) * len(self.models) + self.gpu_model_index[allocations.gpu]
        self._keys = np.union1d(np.arange(len(self.models)), keys)
        self.allocation_rows = np.searchsorted(self._keys, keys)
        self.amounts = np.zeros((len(self._keys), len(CATEGORIES)), np.int64)

    def add(self, rows: IntArray, category: UsageCategory, amounts: IntArray) -> None:
        np.add.at(self.amounts[:, CATEGORY_COLUMNS[category]], rows, amounts)

    def sum_by_model(self) -> IntArray:
        """[model, category]"""
        totals = np.zeros((len(self.models), len(CATEGORIES)), np.int64)
        np.add.at(totals, self._keys % max(1, len(self.models)), self.amounts)
        return totals

    def build_entries(self) -> tuple[LedgerEntry, ...]:
        rows, columns = np.nonzero(self.amounts)
        owners, models = np.divmod(self._keys[rows], max(1, len(self.models)))
        amounts = self.amounts[rows, columns]
        cells = zip(*(values.tolist() for values in (owners, models, columns, amounts)), strict=True)
        return tuple(
            LedgerEntry(self._owners[owner], self.models[model], CATEGORIES[column], amount)
            for owner, model, column, amount in cells
        )


def close_hour(hour: HourInputs) -> HourUsage:
    """The ledger of the hour and the usage of each workload, independent of the order of the inputs."""
    gpus = GpuPresence(hour)
    end = hour.at + HOUR_MS
    inside = np.maximum(hour.allocations.from_at, hour.at) < np.minimum(hour.allocations.to_at, end)
    allocations = hour.allocations.select(gpus.is_present[hour.allocations.gpu] & inside)
    ledger = _LedgerBuilder(hour, allocations)
    _add_allocated_time(hour, allocations, gpus, ledger)
    _add_unallocated_time(gpus, ledger)
    samples = gather_statistics(hour.samples, hour.at, allocations)
    entries = ledger.build_entries()
    return HourUsage(
        at=hour.at,
        gpus=gpus.max_present,
        capacity=sum(entry.amount for entry in entries),
        entries=entries,
        workloads=tuple(_build_workload_usage(hour.at, allocations, entries, samples)),
        stats=samples.overall_utilization(),
    )


def _add_allocated_time(
    hour: HourInputs, allocations: AllocationIntervals, gpus: GpuPresence, ledger: _LedgerBuilder
) -> None:
    """Add the starting, unmeasured, busy and idle time of each allocation."""
    begin, until = _tick_validity(hour)
    parts = _healthy_segments(hour, allocations, gpus, ledger)
    for first in range(0, parts.shape[1], ALLOCATION_BATCH_SIZE):
        row, gpu, milli, from_at, to_at, started_at, allocated_at = parts[:, first : first + ALLOCATION_BATCH_SIZE]
        from_at, to_at = from_at - hour.at, to_at - hour.at
        working = np.clip(started_at - hour.at, from_at, to_at)
        own = hour.samples.sampled_at(gpu) >= allocated_at[:, None]
        since = _backfill_first_sample(hour, begin, own, np.maximum(allocated_at - hour.at, 0))
        overlap = np.minimum(to_at[:, None], until) - np.maximum(working[:, None], since)
        readings = hour.samples.utilization[gpu]
        overlap *= (overlap > 0) & (readings >= 0) & own
        measured = overlap.sum(axis=1)
        busy = (overlap * (readings > hour.idle_threshold)).sum(axis=1)
        ledger.add(row, UsageCategory.STARTING, (working - from_at) * milli)
        ledger.add(row, UsageCategory.UNMEASURED, (to_at - working - measured) * milli)
        ledger.add(row, UsageCategory.BUSY, busy * milli)
        ledger.add(row, UsageCategory.IDLE, (measured - busy) * milli)


def _healthy_segments(
    hour: HourInputs, allocations: AllocationIntervals, gpus: GpuPresence, ledger: _LedgerBuilder
) -> IntArray:
    """The parts of allocations on present, healthy GPUs: row, GPU, milli-GPUs, from, to, start, allocation start.
    Faulty time is added to the ledger here."""
    from_at = np.maximum(allocations.from_at, gpus.from_at[allocations.gpu])
    to_at = np.minimum(allocations.to_at, gpus.to_at[allocations.gpu])
    irregular = gpus.is_irregular[allocations.gpu]
    parts = np.stack(
        [
            ledger.allocation_rows,
            allocations.gpu,
            allocations.gpu_milli,
            from_at,
            to_at,
            allocations.started_at,
            allocations.from_at,
        ]
    )
    pieces = [parts[:, ~irregular & (from_at < to_at)]]
    for index in np.flatnonzero(irregular).tolist():
        row, gpu, milli, *_, started_at, allocated_at = parts[:, index].tolist()
        allocated_intervals = intersect(
            [(int(allocations.from_at[index]), int(allocations.to_at[index]))], gpus.present_intervals[gpu]
        )
        lost = intersect(allocated_intervals, gpus.faulty_intervals.get(gpu, []))
        ledger.amounts[row, CATEGORY_COLUMNS[UsageCategory.FAULTY]] += total_length(lost) * milli
        healthy = [
            (row, gpu, milli, *interval, started_at, allocated_at) for interval in subtract(allocated_intervals, lost)
        ]
        pieces.append(np.array(healthy, np.int64).reshape(-1, 7).T)
    return np.concatenate(pieces, axis=1)


def _tick_validity(hour: HourInputs) -> tuple[IntArray, IntArray]:
    """Start and end of the validity of each tick, relative to the hour."""
    ats, validity = hour.samples.tick_times - hour.at, hour.samples.validity
    if not len(ats):
        return ats, ats
    return ats, np.minimum(np.append(ats[1:], HOUR_MS), ats + validity)


def _backfill_first_sample(
    hour: HourInputs, begin: IntArray, own: NDArray[np.bool_], allocated_at: IntArray
) -> IntArray:
    """Since when each sample is valid for its allocation: [allocation, tick]. `own` marks samples taken during the
    allocation, which began at `allocated_at` or with the hour."""
    since = np.broadcast_to(begin, own.shape).copy()
    if not len(begin):
        return since
    rows, first = np.arange(len(own)), own.argmax(axis=1)
    is_near = own.any(axis=1) & (begin[first] - allocated_at <= hour.samples.validity[first] // 2)
    since[rows, first] = np.where(is_near, np.minimum(begin[first], allocated_at), begin[first])
    return since


def _add_unallocated_time(gpus: GpuPresence, ledger: _LedgerBuilder) -> None:
    """Add unallocated time as faulty or free."""
    totals = np.zeros((2, len(ledger.models)), np.int64)
    for total, times in zip(totals, gpus.durations(), strict=True):
        np.add.at(total, ledger.gpu_model_index, times * MILLI)
    present, faulty = totals
    allocated = ledger.sum_by_model()
    lost = allocated[:, CATEGORY_COLUMNS[UsageCategory.FAULTY]]
    rows = np.arange(len(ledger.models))
    ledger.add(rows, UsageCategory.FREE, present - faulty - (allocated.sum(axis=1) - lost))
    ledger.add(rows, UsageCategory.FAULTY, faulty - lost)


def _build_workload_usage(
    at: int, allocations: AllocationIntervals, entries: Iterable[LedgerEntry], samples: SampleStatistics
) -> Iterator[WorkloadUsage]:
    allocated: defaultdict[str, int] = defaultdict(int)
    for entry in entries:
        allocated[entry.workload_uid] += entry.amount
    workloads = zip(
        allocations.owners,
        _concurrency_by_owner(at, allocations),
        samples.utilization_by_owner(),
        samples.memory_by_owner(),
        strict=True,
    )
    for uid, (peak, replicas), stats, memory in workloads:
        yield WorkloadUsage(uid, allocated[uid], peak, stats, memory, replicas)


def _concurrency_by_owner(at: int, allocations: AllocationIntervals) -> Iterator[tuple[int, ReplicaStats]]:
    """Peak allocation and pod concurrency of each owner."""
    if not len(allocations):
        return
    spans = np.stack([np.maximum(allocations.from_at, at), np.minimum(allocations.to_at, at + HOUR_MS)])
    starts = np.searchsorted(allocations.owner, np.arange(len(allocations.owners) + 1))
    firsts = starts[:-1]
    uniform = (np.minimum.reduceat(spans, firsts, axis=1) == np.maximum.reduceat(spans, firsts, axis=1)).all(axis=0)
    new_pod = np.diff(allocations.pod, prepend=-1) != 0
    new_pod[firsts] = True
    pods = np.add.reduceat(new_pod, firsts, dtype=np.int64).tolist()
    milli = np.add.reduceat(allocations.gpu_milli, firsts).tolist()
    for owner, (first, last) in enumerate(pairwise(starts.tolist())):
        if uniform[owner]:  # the usual case: all GPUs are allocated for the same time
            yield milli[owner], ReplicaStats(float(pods[owner]), pods[owner], pods[owner])
        else:
            mine = slice(first, last)
            yield _concurrency_of(
                allocations.pod[mine].tolist(), allocations.gpu_milli[mine].tolist(), spans[:, mine].T.tolist()
            )


def _concurrency_of(
    pods: Sequence[int], milli: Sequence[int], spans: Sequence[Sequence[int]]
) -> tuple[int, ReplicaStats]:
    intervals: list[Interval] = [(first, last) for first, last in spans]
    intervals_by_pod: defaultdict[int, list[Interval]] = defaultdict(list)
    for pod, interval in zip(pods, intervals, strict=True):
        intervals_by_pod[pod].append(interval)
    replicas = Concurrency(
        (interval, 1) for pod_intervals in intervals_by_pod.values() for interval in merge_intervals(pod_intervals)
    )
    peak = Concurrency(zip(intervals, milli, strict=True)).max
    return peak, ReplicaStats(replicas.average, replicas.max, replicas.min)
