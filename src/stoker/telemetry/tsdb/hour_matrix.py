"""The samples of one hour of a cluster as matrices, one row per GPU and one column per tick."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.quantity import MIB
from stoker.domain.cluster.samples import GpuMetric
from stoker.store.db.base import Transaction
from stoker.store.telemetry import gpu_samples
from stoker.telemetry.tsdb import device_index, reader
from stoker.telemetry.tsdb.codec import Ages
from stoker.telemetry.tsdb.reader import BlockSamples

METRICS = (GpuMetric.UTILIZATION, GpuMetric.MEMORY_USED)
MISSING = -1


class HourMatrix(Struct, frozen=True, eq=False):
    """Matrices [gpu, tick], ordered by time; `MISSING` where there is no sample. Utilization is in hundredths of a
    percent, memory in MiB. `memory_size` [gpu] is the last known size in MiB, 0 if none is known. `ages` [gpu, tick] is
    by how much each sample is older than its tick; None if all were taken at their tick."""

    ats: NDArray[np.int64]
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]
    memory_size: NDArray[np.int64]
    ages: Ages | None = None

    def select(self, gpus: Sequence[int]) -> "HourMatrix":
        """Only these rows."""
        ages = None if self.ages is None else self.ages[gpus]
        return HourMatrix(self.ats, self.utilization[gpus], self.memory[gpus], self.memory_size[gpus], ages)


class DeviceRows(Struct, frozen=True, eq=False):
    """For each GPU of a device index its row in the matrices, or -1, and its memory in MiB."""

    rows: NDArray[np.intp]
    memory_size: NDArray[np.int64]


def read_hour_matrix(
    transaction: Transaction,
    cluster_id: str,
    hour_at: int,
    gpus: Sequence[GpuId],
    rows: dict[int, DeviceRows] | None = None,
    lead_ms: int = 0,
) -> HourMatrix:
    """The samples of these GPUs from `lead_ms`, at most an hour, before the hour until its end. `rows` caches the rows
    by device index for further hours."""
    first_at, end_at = hour_at - lead_ms, hour_at + HOUR_MS
    blocks = reader.list_blocks(transaction, cluster_id, first_at, end_at)
    block_times = [ats[np.searchsorted(ats, first_at) :] for ats in (block.times() for block in blocks)]
    ats = np.unique(np.concatenate([*block_times, np.zeros(0, np.int64)]))
    builder = _MatrixBuilder(gpus, ats, {} if rows is None else rows)
    for block, times in zip(blocks, block_times, strict=True):
        if not len(times):
            continue
        device_rows = builder.device_rows(transaction, block.device_index_id, int(times[-1]))
        for first_gpu, samples in block.read_all(transaction, len(device_rows), METRICS):
            builder.add(device_rows[first_gpu : first_gpu + block.chunk_gpus], samples.since(first_at))
    return HourMatrix(builder.ats, builder.utilization, builder.memory, builder.memory_size(), builder.ages)


class _MatrixBuilder:
    """Fills the matrices block by block."""

    def __init__(self, gpus: Sequence[GpuId], ats: NDArray[np.int64], rows: dict[int, DeviceRows]) -> None:
        self.ats = ats
        self.utilization = np.full((len(gpus), len(ats)), MISSING, np.int16)
        self.memory = np.full((len(gpus), len(ats)), MISSING, np.int32)
        self.ages: Ages | None = None
        self._gpus = gpus
        self._rows = rows
        self._last_at: dict[int, int] = {}

    def add(self, rows: NDArray[np.intp], samples: BlockSamples) -> None:
        """Write samples to these rows; those of GPUs with row -1 are left out."""
        known = np.flatnonzero(rows >= 0)
        cells = _index_cells(rows[known], np.searchsorted(self.ats, samples.ats))
        for matrix, metric in ((self.utilization, GpuMetric.UTILIZATION), (self.memory, GpuMetric.MEMORY_USED)):
            values = samples.values[metric]
            matrix[cells] = np.maximum(values if len(known) == len(rows) else values[known], MISSING)
        if samples.ages is not None:
            if self.ages is None:
                self.ages = np.zeros(self.utilization.shape, np.int16)
            self.ages[cells] = samples.ages[known]

    def device_rows(self, transaction: Transaction, index_id: int, last_at: int) -> NDArray[np.intp]:
        """The rows of the GPUs of a device index, -1 for other GPUs; `last_at` is the last tick that uses it."""
        if index_id not in self._rows:
            index = device_index.decode(gpu_samples.read_device_index(transaction, index_id))
            rows = np.full(index.gpu_count, -1, np.intp)
            index_rows = index.rows(self._gpus)
            rows[index_rows[index_rows >= 0]] = np.flatnonzero(index_rows >= 0)
            self._rows[index_id] = DeviceRows(rows, index.memory_bytes // MIB)
        self._last_at[index_id] = max(last_at, self._last_at.get(index_id, 0))
        return self._rows[index_id].rows

    def memory_size(self) -> NDArray[np.int64]:
        """The size of each GPU in the latest device index that knows it."""
        sizes = np.zeros(len(self._gpus), np.int64)
        for index_id in sorted(self._last_at, key=self._last_at.__getitem__):
            device_rows = self._rows[index_id]
            known = np.flatnonzero((device_rows.rows >= 0) & (device_rows.memory_size > 0))
            sizes[device_rows.rows[known]] = device_rows.memory_size[known]
        return sizes


def _index_cells(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Any, ...]:
    """An index of these rows and columns; slices, which are many times as fast, if both are contiguous."""
    if all(
        len(axis) and axis[-1] - axis[0] == len(axis) - 1 and (np.diff(axis) == 1).all() for axis in (rows, columns)
    ):
        return slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return np.ix_(rows, columns)
