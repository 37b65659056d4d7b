"""Range queries over the stored GPU samples. A sample is only visible to the workload that held its GPU then."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.metrics.series import DeviceAllocation, GpuSeries, TimeRange
from stoker.store.db.base import Store, Transaction
from stoker.telemetry.query.downsample import Downsampler
from stoker.telemetry.tsdb import reader
from stoker.telemetry.tsdb.chunk_cache import CacheMissError, ChunkCache, DecodedBlock
from stoker.telemetry.tsdb.codec import CHUNK_GPUS, QUANTIZATIONS, Ages
from stoker.telemetry.tsdb.device_index import DeviceIndex
from stoker.telemetry.tsdb.reader import DeviceIndexCache, HeadBlock, SealedBlock

CHUNK_BATCH_SIZE = 8
"""How many chunks are added up together: few numpy calls for most workloads, little memory for the largest."""
INLINE_POINT_LIMIT = 20_000
"""Up to this many points are computed on the event loop, if their samples are in the cache."""


class LocalBackend:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._device_indexes = DeviceIndexCache()
        self._chunk_cache = ChunkCache()
        self._turn_lock = asyncio.Lock()

    async def query_range(
        self, cluster_id: str, allocations: Sequence[DeviceAllocation], metrics: Sequence[GpuMetric], span: TimeRange
    ) -> Mapping[GpuMetric, list[GpuSeries]]:
        """Series by node and device; MEMORY_USED as a fraction of the GPU's memory."""

        def read(transaction: Transaction, *, cached_only: bool = False) -> dict[GpuMetric, list[GpuSeries]]:
            downsampler = Downsampler(allocations, metrics, span)
            for block in reader.list_blocks(transaction, cluster_id, downsampler.first_at, downsampler.last_at + 1):
                self._add_block(transaction, downsampler, block, metrics, cached_only=cached_only)
            return downsampler.lines()

        if len(allocations) * len(metrics) * (span.end - span.start) // span.step <= INLINE_POINT_LIMIT:
            with suppress(CacheMissError):
                await self._yield_to_loop()
                return await self._store.read_inline(lambda tx: read(tx, cached_only=True))
        return await self._store.read(read)

    async def _yield_to_loop(self) -> None:
        """Let one query run per iteration of the event loop, in order of arrival, so that other work runs between."""
        await self._turn_lock.acquire()
        asyncio.get_running_loop().call_soon(self._turn_lock.release)

    def _add_block(
        self,
        transaction: Transaction,
        downsampler: Downsampler,
        block: SealedBlock | HeadBlock,
        metrics: Sequence[GpuMetric],
        *,
        cached_only: bool,
    ) -> None:
        intervals = downsampler.intervals_between(block.first_at, block.last_at + 1)
        if not len(intervals):
            return
        index = self._device_indexes.get(transaction, block.device_index_id)
        chunks = (
            (
                samples.ats,
                places,
                rows,
                _read_values(metrics, index, rows, first, samples),
                samples.ages_of(rows - first),
            )
            for first, places, rows in _group_by_chunk(downsampler.device_rows(index), intervals, block.chunk_gpus)
            if (chunk := self._chunk_cache.read(transaction, block, first, cached_only=cached_only)) is not None
            for samples in [chunk.between(downsampler.first_at, downsampler.last_at)]
        )
        # The chunks of a sealed block have the same ticks; a stripe of the head, which may lack some, is a batch.
        batch_size = max(1, CHUNK_BATCH_SIZE * CHUNK_GPUS // block.chunk_gpus)
        while batch := list(islice(chunks, batch_size)):
            ats, places, rows, values, ages = zip(*batch, strict=True)
            units = _step_units(metrics, index, np.concatenate(rows))
            joined_ages = _concatenate_ages(ages, rows, len(ats[0]))
            downsampler.add(ats[0], np.concatenate(places), np.concatenate(values, axis=1), units, joined_ages)


def _group_by_chunk(
    rows: NDArray[np.intp], places: NDArray[np.intp], chunk_gpus: int
) -> Iterator[tuple[int, NDArray[np.intp], NDArray[np.intp]]]:
    """By chunk: its first GPU, the places of the intervals whose GPUs are in it, and their rows of the device index."""
    places = places[rows[places] >= 0]
    first = rows[places] // chunk_gpus * chunk_gpus
    for first_gpu in np.unique(first).tolist():
        in_chunk = places[first == first_gpu]
        yield first_gpu, in_chunk, rows[in_chunk]


def _concatenate_ages(ages: Sequence[Ages | None], rows: Sequence[NDArray[np.intp]], ticks: int) -> Ages | None:
    if all(chunk_ages is None for chunk_ages in ages):
        return None
    zeros = [np.zeros((len(chunk_rows), ticks), np.int16) for chunk_rows in rows]
    return np.concatenate([none if given is None else given for given, none in zip(ages, zeros, strict=True)])


def _read_values(
    metrics: Sequence[GpuMetric], index: DeviceIndex, rows: NDArray[np.intp], first_gpu: int, samples: DecodedBlock
) -> NDArray[np.int32]:
    """The quantized values of these rows; used memory is capped at the GPU's memory before means are taken."""
    values = samples.select(metrics, rows - first_gpu)
    if GpuMetric.MEMORY_USED in metrics:
        limit = (index.memory_bytes[rows] * QUANTIZATIONS[GpuMetric.MEMORY_USED].steps_per_unit).astype(np.int32)
        used = values[metrics.index(GpuMetric.MEMORY_USED)]
        np.minimum(used, limit[:, np.newaxis], out=used)
    return values


def _step_units(metrics: Sequence[GpuMetric], index: DeviceIndex, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """The value of one quantization step [metric, row]; of used memory as a fraction of the GPU's memory, and 0 where
    that is not known."""
    units = np.array([[1 / QUANTIZATIONS[metric].steps_per_unit] for metric in metrics]) + np.zeros(len(rows))
    if GpuMetric.MEMORY_USED in metrics:
        total = index.memory_bytes[rows]
        units[metrics.index(GpuMetric.MEMORY_USED)] /= np.where(total > 0, total, np.inf)
    return units
