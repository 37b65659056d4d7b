"""An LRU cache of decoded GPU samples, shared by all threads.

Stored samples never change, so cached ones are never out of date: a sealed chunk is decoded once, and of the head only
the ticks that were added since.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.domain.cluster.samples import GpuMetric
from stoker.store.db.base import Transaction
from stoker.telemetry.tsdb.codec import QUANTIZATIONS, Ages
from stoker.telemetry.tsdb.reader import BlockSamples, HeadBlock, SealedBlock

MISSING = int(np.iinfo(np.int32).min)
METRIC_ROWS = {metric: row for row, metric in enumerate(GpuMetric)}
MAX_CACHE_BYTES = 64 << 20
MAX_INLINE_DECODE = 4
"""How many ticks a `cached_only` read decodes itself, such as those that were added since the last read."""
HEAD_RETENTION_MS = 2 * HOUR_MS
"""Older ticks of the head stay cached only while they are asked for: compaction takes ticks away sooner."""


class CacheMissError(Exception):
    """The samples are not in the cache, and the caller does not want to decode them."""


class DecodedBlock(Struct, frozen=True):
    """Quantized values [metric, gpu, tick] at increasing times, `MISSING` where there is no sample. `ages` [gpu, tick]
    is by how much each sample is older than its tick; None if all were taken at their tick."""

    ats: NDArray[np.int64]
    numbers: NDArray[np.int32]
    ages: Ages | None = None

    @property
    def nbytes(self) -> int:
        return self.ats.nbytes + self.numbers.nbytes + (0 if self.ages is None else self.ages.nbytes)

    def ages_of(self, gpus: NDArray[np.intp]) -> Ages | None:
        return None if self.ages is None else self.ages[gpus]

    def select(self, metrics: Sequence[GpuMetric], gpus: NDArray[np.intp]) -> NDArray[np.int32]:
        """Only these metrics of these GPUs."""
        return self.numbers[np.array([METRIC_ROWS[metric] for metric in metrics])[:, np.newaxis], gpus]

    def at_times(self, ats: NDArray[np.int64]) -> "DecodedBlock":
        """Only these ticks; a view if they are contiguous."""
        contiguous = self._find_contiguous(ats)
        return self._slice(np.isin(self.ats, ats) if contiguous is None else contiguous)

    def has_times(self, ats: NDArray[np.int64]) -> bool:
        """Whether the block has all of these ticks."""
        return self._find_contiguous(ats) is not None or bool(np.isin(ats, self.ats).all())

    def _find_contiguous(self, ats: NDArray[np.int64]) -> slice | None:
        """Where these ticks are, if no other tick is between them; that is quick to find out and mostly so."""
        first = int(np.searchsorted(self.ats, ats[0])) if len(ats) else 0
        columns = slice(first, first + len(ats))
        return columns if np.array_equal(self.ats[columns], ats) else None

    def between(self, first: int, last: int) -> "DecodedBlock":
        """A view of the ticks from `first` to `last`, both included."""
        return self._slice(slice(*np.searchsorted(self.ats, (first, last + 1)).tolist()))

    def since(self, at: int) -> "DecodedBlock":
        """A copy of the ticks from `at` on: a view would keep the older ones in memory."""
        return self._slice(self.ats >= at)

    def _slice(self, columns: slice | NDArray[np.bool_]) -> "DecodedBlock":
        ages = None if self.ages is None else self.ages[:, columns]
        return DecodedBlock(self.ats[columns], self.numbers[..., columns], ages)

    def merge(self, other: "DecodedBlock") -> "DecodedBlock":
        """The ticks of both; they have none in common."""
        ats = np.concatenate([self.ats, other.ats])
        order = np.argsort(ats)
        numbers = np.concatenate([self.numbers, other.numbers], axis=2)[..., order]
        if self.ages is None and other.ages is None:
            return DecodedBlock(ats[order], numbers)
        return DecodedBlock(
            ats[order], numbers, np.concatenate([self._dense_ages(), other._dense_ages()], axis=1)[:, order]
        )

    def _dense_ages(self) -> Ages:
        return np.zeros(self.numbers.shape[1:], np.int16) if self.ages is None else self.ages


def _decode(samples: BlockSamples | None) -> DecodedBlock | None:
    if samples is None:
        return None
    numbers = np.stack([samples.values[metric] for metric in GpuMetric], dtype=np.int32)
    for metric, row in METRIC_ROWS.items():
        np.copyto(numbers[row], MISSING, where=samples.values[metric] == QUANTIZATIONS[metric].missing)
    return DecodedBlock(samples.ats, numbers, samples.ages)


class ChunkCache:
    """Bounded by memory. A `cached_only` read raises `CacheMissError` rather than decode more than a few ticks or wait
    for another thread."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self._entries: OrderedDict[Hashable, DecodedBlock] = OrderedDict()
        self._lock = threading.Lock()
        self._decode_lock = threading.Lock()

    def read(
        self, transaction: Transaction, block: SealedBlock | HeadBlock, first_gpu: int, *, cached_only: bool
    ) -> DecodedBlock | None:
        """The chunk or stripe of a block that begins with this GPU; None if there is none."""
        if isinstance(block, SealedBlock):
            return self._read_sealed(transaction, block, first_gpu, cached_only=cached_only)
        return self._read_head(transaction, block, first_gpu, cached_only=cached_only)

    def _read_sealed(
        self, transaction: Transaction, block: SealedBlock, first_gpu: int, *, cached_only: bool
    ) -> DecodedBlock | None:
        def count_missing(cached: DecodedBlock | None) -> int:
            return block.row.ticks if cached is None else 0

        def read(_: DecodedBlock | None) -> DecodedBlock | None:
            return _decode(block.read(transaction, first_gpu))

        return self._get_or_decode(("chunk", block.row.id, first_gpu), count_missing, read, cached_only=cached_only)

    def _read_head(
        self, transaction: Transaction, block: HeadBlock, first_gpu: int, *, cached_only: bool
    ) -> DecodedBlock | None:
        ats = block.ats

        def missing_times(cached: DecodedBlock | None) -> NDArray[np.int64]:
            return ats if cached is None else np.setdiff1d(ats, cached.ats)

        def count_missing(cached: DecodedBlock | None) -> int:
            return 0 if cached is not None and cached.has_times(ats) else len(missing_times(cached))

        def read(cached: DecodedBlock | None) -> DecodedBlock | None:
            new_ticks = HeadBlock(block.cluster_id, block.device_index_id, missing_times(cached))
            new = _decode(new_ticks.read(transaction, first_gpu))
            if new is None or cached is None:
                return new or cached
            return cached.merge(new).since(min(ats[0], max(cached.ats[-1], ats[-1]) - HEAD_RETENTION_MS))

        key = ("ticks", block.cluster_id, block.device_index_id, first_gpu)
        cached = self._get_or_decode(key, count_missing, read, cached_only=cached_only)
        return cached and cached.at_times(ats)

    def _get_or_decode(
        self,
        key: Hashable,
        count_missing: Callable[[DecodedBlock | None], int],
        read: Callable[[DecodedBlock | None], DecodedBlock | None],
        *,
        cached_only: bool,
    ) -> DecodedBlock | None:
        """The cached entry, or what `read` makes of it if ticks are missing."""
        cached = self._get(key)
        if not (missing := count_missing(cached)):
            return cached
        if cached_only and missing > MAX_INLINE_DECODE:
            raise CacheMissError
        if not self._decode_lock.acquire(blocking=not cached_only):  # concurrent readers decode an entry once
            raise CacheMissError
        try:
            cached = self._get(key)
            if not count_missing(cached):
                return cached
            decoded = read(cached)
            if decoded is not None:
                self._put(key, decoded)
            return decoded
        finally:
            self._decode_lock.release()

    def _get(self, key: Hashable) -> DecodedBlock | None:
        with self._lock:
            cached = self._entries.get(key)
            if cached is not None:
                self._entries.move_to_end(key)
            return cached

    def _put(self, key: Hashable, entry: DecodedBlock) -> None:
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._entries[key] = entry
            self.size += entry.nbytes - (replaced.nbytes if replaced else 0)
            while self.size > self._max_bytes:
                self.size -= self._entries.popitem(last=False)[1].nbytes
