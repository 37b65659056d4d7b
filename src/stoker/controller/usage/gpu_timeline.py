"""The GPUs of a cluster over several hours and their allocations, computed once for all of these hours."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from msgspec import structs

from stoker.domain.cluster.gpu_identity import GpuId, is_other_gpu
from stoker.domain.cluster.quantity import MIB
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.store.cluster.gpu_availability import GpuInterval, GpuIntervalState
from stoker.store.db.base import Transaction
from stoker.store.usage.hour_facts import AllocationRecord
from stoker.telemetry.tsdb.hour_matrix import DeviceRows, HourMatrix, read_hour_matrix
from stoker.usage.inputs import (
    AllocationInterval,
    DeviceInterval,
    DeviceIntervals,
    build_allocation_intervals,
    build_device_intervals,
)

LOOKBACK_MS = MAX_SAMPLE_GAP_MS * 3 // 2
"""How long before an hour samples are read: the last sample before the hour is valid into it."""


class GpuTimeline:
    """The GPUs that were present, each by its UUID, wherever it was. One without a UUID that was replaced by another
    model counts as several GPUs, one after the other. `has_replacements` says that there is one; such a timeline is not
    valid for other hours."""

    def __init__(self, spans: Sequence[GpuInterval], allocations: Sequence[AllocationRecord]) -> None:
        present = [span for span in spans if span.state is GpuIntervalState.PRESENT]
        gpus = {_device_identity(span): span.gpu for span in present}
        kinds = sorted(gpus, key=lambda kind: (gpus[kind], kind))
        self._gpus = [gpus[kind] for kind in kinds]
        self._rows: dict[int, DeviceRows] = {}
        self.models = [model for _, model, _ in kinds]
        self._memory_size = np.array([memory_bytes // MIB for *_, memory_bytes in kinds], np.int64)
        self._rows_by_gpu: defaultdict[str, list[int]] = defaultdict(list)
        self._rows_by_place: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for row, (kind, gpu) in enumerate(zip(kinds, self._gpus, strict=True)):
            self._rows_by_gpu[kind[0]].append(row)
            self._rows_by_place[gpu.node, gpu.device].append(row)
        number = {kind: row for row, kind in enumerate(kinds)}
        intervals = [DeviceInterval(number[_device_identity(span)], span.from_at, span.to_at) for span in present]
        replaced = {row for rows in self._rows_by_place.values() if len(rows) > 1 for row in rows}
        replaced.update(row for rows in self._rows_by_gpu.values() if len(rows) > 1 for row in rows)
        self._replacement_spans: defaultdict[int, list[DeviceInterval]] = defaultdict(list)
        for interval in intervals:
            if interval.gpu in replaced:
                self._replacement_spans[interval.gpu].append(interval)
        self.present = build_device_intervals(intervals)
        self.faulty = self._spans_of_all(span for span in spans if span.state is not GpuIntervalState.PRESENT)
        self.allocations = build_allocation_intervals(
            interval for record in allocations for interval in self._intervals(record)
        )

    @property
    def has_replacements(self) -> bool:
        return bool(self._replacement_spans)

    def hour_matrix(self, transaction: Transaction, cluster_id: str, hour_at: int) -> HourMatrix:
        """The samples of a device without a UUID count for the GPU that was allocated at that time. Memory sizes are
        those the engine reports, else the sampled ones."""
        gpus = {gpu.key: gpu for gpu in self._gpus}
        matrix = read_hour_matrix(transaction, cluster_id, hour_at, list(gpus.values()), self._rows, LOOKBACK_MS)
        if len(gpus) < len(self._gpus):
            row = {key: number for number, key in enumerate(gpus)}
            matrix = matrix.select([row[gpu.key] for gpu in self._gpus])
        return structs.replace(
            matrix, memory_size=np.where(self._memory_size > 0, self._memory_size, matrix.memory_size)
        )

    def _spans_of_all(self, spans: Iterable[GpuInterval]) -> DeviceIntervals:
        return build_device_intervals(
            DeviceInterval(row, span.from_at, span.to_at) for span in spans for row in self._find_rows(span.gpu)
        )

    def _intervals(self, allocation: AllocationRecord) -> Iterator[AllocationInterval]:
        rows = self._find_rows(allocation.gpu)
        if len(rows) == 1:
            yield _interval(allocation, rows[0], allocation.from_at, allocation.to_at)
            return
        for interval in (interval for row in rows for interval in self._replacement_spans[row]):
            from_at, to_at = max(allocation.from_at, interval.from_at), min(allocation.to_at, interval.to_at)
            if from_at < to_at:
                yield _interval(allocation, interval.gpu, from_at, to_at)

    def _find_rows(self, gpu: GpuId) -> list[int]:
        """The rows of a GPU by its key; by its place if its UUID was not known on one of both sides."""
        rows = self._rows_by_gpu.get(gpu.key)
        if rows is not None:
            return rows
        at_place = self._rows_by_place.get((gpu.node, gpu.device), [])
        return [row for row in at_place if not is_other_gpu(gpu.uuid, self._gpus[row].uuid)]


def _device_identity(span: GpuInterval) -> tuple[str, str, int]:
    return span.gpu.key, span.model, span.memory_bytes


def _interval(allocation: AllocationRecord, gpu: int, from_at: int, to_at: int) -> AllocationInterval:
    return AllocationInterval(
        gpu, allocation.workload_uid, allocation.pod_uid, allocation.gpu_milli, from_at, to_at, allocation.started_at
    )
