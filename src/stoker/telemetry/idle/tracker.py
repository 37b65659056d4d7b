"""Since when each allocation has been idle.

An allocation is idle while its workload runs and the samples of its GPU are not above the threshold. Idle time starts
at the first idle sample of the allocation. A missing sample changes nothing; all idle times reset when no sample at all
arrived for `MAX_SAMPLE_GAP_MS`.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, count

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.live_view import GpuColumns
from stoker.domain.cluster.sample_age import MAX_SAMPLE_GAP_MS
from stoker.domain.workload.idle_samples import idle_mask
from stoker.telemetry.idle.samples import AllocationSamples
from stoker.telemetry.tsdb.device_index import DeviceIndex

WORKLOAD_KEY_RANGE = 1 << 32
"""The key of an allocation is the row of its GPU times this, plus the number of its workload."""


class IdleGpu(Struct, frozen=True, gc=False):
    """An idle allocation of a GPU, with the slug of its workload."""

    node: str
    device: int
    workload: str
    since: int
    uuid: str = ""

    @property
    def gpu(self) -> GpuId:
        return GpuId(self.node, self.device, self.uuid)


class IdleAllocations(Struct, frozen=True, eq=False):
    """Since when each allocation of `samples` has been idle; 0 if it is not. Allocations without a current sample keep
    the time that was known before."""

    samples: AllocationSamples
    since: NDArray[np.int64]
    threshold_percent: float

    @property
    def measured_since(self) -> NDArray[np.int64]:
        """The same, but 0 for allocations without a current sample."""
        return np.where(np.isnan(self.samples.utilization), 0, self.since)

    def since_by_workload(self) -> dict[str, int]:
        """Since when all GPUs of a workload have been idle, by uid: since the last of its allocations has been. A
        workload without any current sample, or with one above the threshold, is not idle."""
        samples = self.samples
        since = np.zeros(len(samples.workloads), np.int64)
        np.maximum.at(since, samples.workload, self.since)
        missing = np.isnan(samples.utilization)
        since[np.bincount(samples.workload[~missing], minlength=len(since)) == 0] = 0
        since[samples.workload[~missing & ~idle_mask(samples.utilization, self.threshold_percent)]] = 0
        return {samples.workloads[row].uid: int(since[row]) for row in np.flatnonzero(since).tolist()}

    def milli_by_workload(self, idle_before: int) -> dict[str, int]:
        """Milli-GPUs by workload uid that have been idle since before a moment; each allocation counts by itself."""
        samples, since = self.samples, self.measured_since
        long_idle = (since > 0) & (since < idle_before)
        milli = np.bincount(samples.workload[long_idle], samples.milli[long_idle], len(samples.workloads))
        return {samples.workloads[row].uid: int(milli[row]) for row in np.flatnonzero(milli).tolist()}


class IdleTracker:
    """Keeps the keys of the allocations, sorted, and since when each has been idle, 0 if it is not."""

    def __init__(self, idle_percent: float) -> None:
        self._idle_percent = idle_percent
        self._device_index: DeviceIndex | None = None
        self._keys: NDArray[np.int64] = np.zeros(0, np.int64)
        self._since: NDArray[np.int64] = np.zeros(0, np.int64)
        self._restored: list[IdleGpu] = []
        self._workload_numbers: dict[str, int] = {}
        self._counter = count()
        self._sampled_at = 0

    def restore(self, gpus: Sequence[IdleGpu], at: int) -> None:
        """Continue from what was known at a moment."""
        self._restored, self._sampled_at = list(gpus), at

    def update(self, samples: AllocationSamples) -> IdleAllocations:
        if samples.device_index is not self._device_index:
            self._remap(samples.device_index)
        if samples.at - self._sampled_at > MAX_SAMPLE_GAP_MS:
            self._since = np.zeros_like(self._since)
        if samples.has_samples:
            self._sampled_at = samples.at
        numbers = self._number_workloads([workload.slug for workload in samples.workloads])
        keys = samples.gpu * WORKLOAD_KEY_RANGE + numbers[samples.workload]
        before = self._previous_since(keys)
        idle = samples.is_running[samples.workload] & idle_mask(samples.utilization, self._idle_percent)
        unchanged = (idle | np.isnan(samples.utilization)) & (before > 0)
        since = np.where(unchanged, before, np.where(idle, samples.at, 0))
        self._store_since(keys, since)
        return IdleAllocations(samples, since, self._idle_percent)

    def _number_workloads(self, slugs: Sequence[str]) -> NDArray[np.int64]:
        known = self._workload_numbers
        self._workload_numbers = {slug: known[slug] if slug in known else next(self._counter) for slug in slugs}
        return np.fromiter(self._workload_numbers.values(), np.int64, len(slugs))

    def _previous_since(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(self._keys):
            return np.zeros_like(keys)
        rows = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[rows] == keys, self._since[rows], 0)

    def _store_since(self, keys: NDArray[np.int64], since: NDArray[np.int64]) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys, self._since = keys[order], since[order]

    def _remap(self, index: DeviceIndex) -> None:
        """Move to another device index; GPUs that are in both keep what is known of them."""
        idle = [*self._restored, *self._idle_gpus()]
        rows = index.rows([each.gpu for each in idle]).tolist()
        known = [
            (row * WORKLOAD_KEY_RANGE + self._workload_numbers.setdefault(gpu.workload, next(self._counter)), gpu.since)
            for gpu, row in zip(idle, rows, strict=True)
            if row >= 0
        ]
        self._device_index, self._restored = index, []
        keys, since = np.array(known, np.int64).reshape(-1, 2).T
        self._store_since(keys, since)

    def _idle_gpus(self) -> Iterable[IdleGpu]:
        if self._device_index is None:
            return
        index = self._device_index
        slugs = {number: slug for slug, number in self._workload_numbers.items()}
        for row in np.flatnonzero(self._since).tolist():
            gpu, number = divmod(int(self._keys[row]), WORKLOAD_KEY_RANGE)
            yield IdleGpu(
                index.nodes[index.node[gpu]],
                int(index.device[gpu]),
                slugs[number],
                int(self._since[row]),
                index.uuid[gpu].decode(),
            )


def peak_utilization(samples: AllocationSamples, namespaces: Collection[str]) -> dict[str, float | None]:
    """The utilization of the busiest GPU of each workload of these namespaces, by uid; None if one of its GPUs has no
    sample."""
    known = ~np.isnan(samples.utilization)
    size = len(samples.workloads)
    peaks = np.full(size, -np.inf)
    np.maximum.at(peaks, samples.workload[known], samples.utilization[known])
    measured_milli = np.bincount(samples.workload[known], samples.milli[known], size)
    is_measured = (measured_milli >= samples.total_milli).tolist()
    rows = zip(samples.workloads, np.round(peaks, 4).tolist(), is_measured, samples.total_milli.tolist(), strict=True)
    return {
        workload.uid: peak if measured else None
        for workload, peak, measured, milli in rows
        if milli and workload.namespace in namespaces
    }


def idle_gpus_from_view(columns: GpuColumns) -> list[IdleGpu]:
    """The idle allocations of a published live view."""
    first = zip(range(len(columns.node)), columns.workload, columns.idle_since, strict=False)
    shared = ((row, slug, since) for row, slug, _, since in columns.shared)
    return [
        IdleGpu(columns.node[row], columns.device[row], slug, since, columns.uuid[row] if columns.uuid else "")
        for row, slug, since in chain(first, shared)
        if slug is not None and since is not None
    ]
