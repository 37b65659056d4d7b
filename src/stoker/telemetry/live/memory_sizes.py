"""Memory sizes of GPUs that only samples tell.

The first size stays: samples differ by what a driver reserves and how it rounds, and each new size would make a new
device index. Only a clearly different size is taken for other hardware.
"""

import numpy as np
from numpy.typing import NDArray

from stoker.domain.cluster.gpu_identity import gpu_key
from stoker.telemetry.tsdb.device_index import DeviceIndex

GpuModelKey = tuple[str, str]
"""The key of a GPU, and its model."""
SIZE_TOLERANCE = 1 / 64
"""Sizes that differ by no more than this fraction are the same."""


class MemorySizes:
    def __init__(self) -> None:
        self._known: dict[GpuModelKey, int] = {}

    def restore(self, index: DeviceIndex) -> None:
        """Take the sizes of a stored device index."""
        self._store_sizes(index, index.memory_bytes, np.flatnonzero(index.memory_bytes > 0))

    def sizes_for(self, index: DeviceIndex) -> NDArray[np.int64]:
        """The size of each GPU in the index, or else in an earlier sample; 0 if neither has it."""
        sizes = index.memory_bytes.copy()
        for row in np.flatnonzero(sizes == 0).tolist():
            sizes[row] = self._known.get(_model_key(index, row), 0)
        return sizes

    def update(self, index: DeviceIndex, known: NDArray[np.int64], sampled: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sizes after new samples, whose sizes are `sampled`, 0 where they have none; `known` is the last result of
        `sizes_for` or `update` for this index."""
        new = (index.memory_bytes == 0) & (sampled > 0) & (np.abs(sampled - known) > known * SIZE_TOLERANCE)
        if not new.any():
            return known
        sizes = np.where(new, sampled, known)
        self._store_sizes(index, sizes, np.flatnonzero(new))
        return sizes

    def _store_sizes(self, index: DeviceIndex, sizes: NDArray[np.int64], rows: NDArray[np.intp]) -> None:
        for row in rows.tolist():
            self._known[_model_key(index, row)] = int(sizes[row])


def _model_key(index: DeviceIndex, row: int) -> GpuModelKey:
    key = gpu_key(index.nodes[index.node[row]], int(index.device[row]), index.uuid[row].decode())
    return key, index.models[index.model[row]]
