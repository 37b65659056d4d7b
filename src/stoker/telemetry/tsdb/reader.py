"""Reads stored GPU samples: the head, which is the ticks not compacted yet, and the sealed blocks.

A tick is either in the head or in one sealed block, so the blocks that one transaction lists hold every sample once.
Both kinds of block are read a run of adjacent GPUs at a time: a stripe of the head, or a chunk of a sealed block.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.store.db.base import Transaction
from stoker.store.telemetry import gpu_samples
from stoker.store.telemetry.gpu_samples import SampleBlock
from stoker.telemetry.tsdb import device_index
from stoker.telemetry.tsdb.codec import (
    STRIPE_GPUS,
    Ages,
    QuantizedArray,
    decode_times,
    unpack,
    unpack_ages,
    unpack_tick_ages,
    unpack_ticks,
)
from stoker.telemetry.tsdb.device_index import DeviceIndex

ALL_METRICS = tuple(GpuMetric)
MAX_CACHED_INDEXES = 32


class BlockSamples(Struct, frozen=True, eq=False):
    """Quantized values [gpu, tick] of adjacent GPUs, at increasing times. `ages` [gpu, tick] is by how much each sample
    is older than its tick; None if all were taken at their tick."""

    ats: NDArray[np.int64]
    values: dict[GpuMetric, QuantizedArray]
    ages: Ages | None

    def since(self, at: int) -> "BlockSamples":
        """Views of the ticks from `at` on."""
        first = int(np.searchsorted(self.ats, at))
        values = {metric: array[:, first:] for metric, array in self.values.items()}
        return BlockSamples(self.ats[first:], values, None if self.ages is None else self.ages[:, first:])


class HeadBlock(Struct, frozen=True, eq=False):
    """Ticks of one device index that are not compacted yet, at increasing times; there is at least one."""

    cluster_id: str
    device_index_id: int
    ats: NDArray[np.int64]

    @property
    def chunk_gpus(self) -> int:
        return STRIPE_GPUS

    @property
    def first_at(self) -> int:
        return int(self.ats[0])

    @property
    def last_at(self) -> int:
        return int(self.ats[-1])

    def times(self) -> NDArray[np.int64]:
        return self.ats

    def read(
        self, transaction: Transaction, first_gpu: int, metrics: Iterable[GpuMetric] = ALL_METRICS
    ) -> BlockSamples | None:
        """The stripe that begins with this GPU; None if there is none."""
        stripes = self.read_stripes(transaction, first_gpu)
        if not stripes:
            return None
        ats = np.fromiter(stripes, np.int64, len(stripes))
        encoded = list(stripes.values())
        return BlockSamples(ats, unpack_ticks(encoded, metrics), unpack_tick_ages(encoded))

    def read_all(
        self, transaction: Transaction, gpu_count: int, metrics: Iterable[GpuMetric] = ALL_METRICS
    ) -> Iterator[tuple[int, BlockSamples]]:
        """Every stripe, with its first GPU."""
        for first_gpu in range(0, gpu_count, STRIPE_GPUS):
            samples = self.read(transaction, first_gpu, metrics)
            if samples is not None:
                yield first_gpu, samples

    def read_stripes(self, transaction: Transaction, first_gpu: int) -> dict[int, bytes]:
        """The encoded stripes by time. Stored stripes of other ticks in the same time range are left out."""
        ats = set(self.ats.tolist())
        stored = gpu_samples.read_stripes(transaction, self.cluster_id, first_gpu, self.first_at, self.last_at + 1)
        return {at: data for at, data in stored if at in ats}


class SealedBlock(Struct, frozen=True, eq=False):
    """The ticks of one device index in one hour, or some of them, compacted."""

    row: SampleBlock

    @property
    def device_index_id(self) -> int:
        return self.row.device_index_id

    @property
    def chunk_gpus(self) -> int:
        return self.row.chunk_gpus

    @property
    def first_at(self) -> int:
        """The beginning of the hour: no tick of the block is earlier."""
        return self.row.hour_at

    @property
    def last_at(self) -> int:
        """The end of the hour: no tick of the block is later."""
        return self.row.hour_at + HOUR_MS - 1

    def times(self) -> NDArray[np.int64]:
        return decode_times(self.row.times)

    def read(
        self, transaction: Transaction, first_gpu: int, metrics: Iterable[GpuMetric] = ALL_METRICS
    ) -> BlockSamples | None:
        """The chunk that begins with this GPU; None if there is none."""
        chunks = gpu_samples.read_chunks(transaction, self.row.id, first_gpu, first_gpu + 1)
        return _decode_chunk(chunks[0].data, self.times(), metrics) if chunks else None

    def read_all(
        self, transaction: Transaction, gpu_count: int, metrics: Iterable[GpuMetric] = ALL_METRICS
    ) -> Iterator[tuple[int, BlockSamples]]:
        """Every chunk, with its first GPU."""
        ats = self.times()
        for chunk in gpu_samples.read_chunks(transaction, self.row.id, 0, gpu_count):
            yield chunk.first_gpu, _decode_chunk(chunk.data, ats, metrics)


def _decode_chunk(data: bytes, ats: NDArray[np.int64], metrics: Iterable[GpuMetric]) -> BlockSamples:
    return BlockSamples(ats, unpack(data, metrics), unpack_ages(data))


def list_blocks(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[SealedBlock | HeadBlock]:
    """Every block that may have ticks in [from_at, to_at): sealed blocks hour by hour, then the head."""
    return [
        *list_sealed_blocks(transaction, cluster_id, from_at, to_at),
        *list_head_blocks(transaction, cluster_id, from_at, to_at),
    ]


def list_sealed_blocks(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[SealedBlock]:
    """The sealed blocks of the hours that overlap [from_at, to_at), oldest hour first."""
    rows = gpu_samples.sealed_blocks(transaction, cluster_id, from_at // HOUR_MS * HOUR_MS, to_at)
    return [SealedBlock(row) for row in rows]


def list_head_blocks(transaction: Transaction, cluster_id: str, from_at: int, to_at: int) -> list[HeadBlock]:
    """The head in [from_at, to_at): one block for each device index."""
    ticks = gpu_samples.list_ticks(transaction, cluster_id, from_at, to_at)
    ticks.sort(key=lambda tick: (tick.device_index_id, tick.at))
    return [
        HeadBlock(cluster_id, index_id, np.array([tick.at for tick in group], np.int64))
        for index_id, group in groupby(ticks, lambda tick: tick.device_index_id)
    ]


def blocks_newest_first(
    transaction: Transaction, cluster_id: str, from_at: int, to_at: int, head_ticks: int
) -> Iterator[SealedBlock | HeadBlock]:
    """The same blocks backwards in time, each listed only when it is asked for; the head in blocks of at most
    `head_ticks` ticks."""
    ticks = gpu_samples.list_ticks(transaction, cluster_id, from_at, to_at)[::-1]
    for index_id, group in groupby(ticks, lambda tick: tick.device_index_id):
        ats = [tick.at for tick in group]
        for first in range(0, len(ats), head_ticks):
            yield HeadBlock(cluster_id, index_id, np.array(ats[first : first + head_ticks][::-1], np.int64))
    last_hour = (to_at - 1) // HOUR_MS * HOUR_MS
    for hour_at in range(last_hour, from_at, -HOUR_MS):
        blocks = list_sealed_blocks(transaction, cluster_id, hour_at, hour_at + 1)
        yield from sorted(blocks, key=lambda block: -int(block.times()[-1]))


class DeviceIndexCache:
    """Decoded device indexes by id. A stored index never changes, so a cached one is never out of date."""

    def __init__(self) -> None:
        self._indexes: dict[int, DeviceIndex] = {}

    def get(self, transaction: Transaction, index_id: int) -> DeviceIndex:
        found = self._indexes.get(index_id)
        if found is None:
            if len(self._indexes) >= MAX_CACHED_INDEXES:
                self._indexes.clear()
            found = device_index.decode(gpu_samples.read_device_index(transaction, index_id))
            self._indexes[index_id] = found
        return found
