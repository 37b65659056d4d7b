"""The GPUs of a cluster in a fixed order, by node and device: the rows of encoded samples.

A device index never changes. When the GPUs of a cluster or their places change, a new one is made; the same GPUs at the
same places always give the same one. A GPU is found in each of them by its UUID, wherever it was then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.gpu_identity import GpuId
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import GpuSamples, encode_uuids
from stoker.store.db.blob_format import add_version, strip_version

MAX_DEVICES_PER_NODE = 1 << 16
"""More than any node has: the number of a node times this, plus the device, is the sort key of a GPU."""
FORMAT_VERSION = 2
"""The version of encoded indexes; memory sizes are in bytes."""


class DeviceIndex(Struct, frozen=True, eq=False, dict=True):
    """One row of every array is one GPU. `node` and `model` are positions in `nodes` and `models`; `memory_bytes` is 0
    if the size is not known, `uuid` is empty for a GPU without one."""

    nodes: tuple[str, ...]
    models: tuple[str, ...]
    node: NDArray[np.int32]
    device: NDArray[np.int32]
    model: NDArray[np.int32]
    memory_bytes: NDArray[np.int64]
    uuid: NDArray[np.bytes_]

    @property
    def gpu_count(self) -> int:
        return len(self.node)

    @cached_property
    def sort_keys(self) -> NDArray[np.int64]:
        return self.node.astype(np.int64) * MAX_DEVICES_PER_NODE + self.device

    @cached_property
    def node_numbers(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.nodes)}

    @cached_property
    def rows_by_uuid(self) -> Mapping[bytes, int]:
        """Without UUIDs that several GPUs have."""
        uuids = self.uuid.tolist()
        rows = {uuid: row for row, uuid in enumerate(uuids) if uuid}
        if len(rows) < np.count_nonzero(_is_known(self.uuid)):
            shared = {uuid for uuid, count in Counter(uuids).items() if count > 1}
            return {uuid: row for uuid, row in rows.items() if uuid not in shared}
        return rows

    def rows(self, gpus: Sequence[GpuId]) -> NDArray[np.intp]:
        """The row of each of these GPUs, or -1. A GPU is found by its UUID; by node and device if it or the GPU there
        has none."""
        wanted = [self.node_numbers.get(gpu.node, -1) * MAX_DEVICES_PER_NODE + gpu.device for gpu in gpus]
        rows, uuids = self._find(np.array(wanted, np.int64)), encode_uuids(gpu.uuid for gpu in gpus)
        for place in self._other_uuids(rows, uuids).tolist():
            at_place = rows[place]
            rows[place] = self.rows_by_uuid.get(uuids[place], -1 if at_place < 0 or self.uuid[at_place] else at_place)
        return rows

    def align(self, samples: GpuSamples) -> NDArray[np.intp]:
        """For each GPU its row in the samples, or -1: the sample with its UUID, else that at its node and device. Of
        two such samples the last counts."""
        rows = np.full(self.gpu_count, -1, np.intp)
        places = np.array([self.node_numbers.get(name, -1) for name in samples.nodes], np.int64)[samples.node]
        by_place = self._find(places * MAX_DEVICES_PER_NODE + samples.device)
        if samples.uuid is None:
            _assign(rows, by_place)
            return rows
        by_uuid = by_place.copy()
        by_uuid[~_is_known(samples.uuid)] = -1
        for place in self._other_uuids(by_place, samples.uuid).tolist():
            by_uuid[place] = self.rows_by_uuid.get(samples.uuid[place], -1)
        # a UUID in a notation that the index does not have says nothing
        _assign(rows, np.where(by_uuid >= 0, -1, by_place))
        _assign(rows, by_uuid)
        return rows

    def _other_uuids(self, rows: NDArray[np.intp], uuids: NDArray[np.bytes_]) -> NDArray[np.intp]:
        """The places of UUIDs that are not those of these rows."""
        at_rows = self.uuid[rows] if self.gpu_count else np.zeros(len(rows), np.bytes_)
        return np.flatnonzero(_is_known(uuids) & ((rows < 0) | (uuids != at_rows)))

    def _find(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        if not self.gpu_count:
            return np.full(len(keys), -1, np.intp)
        found = np.minimum(np.searchsorted(self.sort_keys, keys), self.gpu_count - 1)
        return np.where(self.sort_keys[found] == keys, found, -1)


def _is_known(uuids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """The same as a comparison with an empty UUID, many times as fast."""
    return np.ascontiguousarray(uuids).view(np.uint8)[:: uuids.dtype.itemsize] != 0


def _assign(rows: NDArray[np.intp], found: NDArray[np.intp]) -> None:
    known = np.flatnonzero(found >= 0)
    rows[found[known]] = known


class _EncodedIndex(Struct, frozen=True, array_like=True):
    nodes: tuple[str, ...]
    models: tuple[str, ...]
    node: bytes
    device: bytes
    model: bytes
    memory_bytes: bytes
    uuid_size: int
    """Bytes of each UUID; shorter ones are padded with zeros."""
    uuid: bytes


_decoder = msgspec.msgpack.Decoder(_EncodedIndex)
_encode = msgspec.msgpack.Encoder().encode


def build_device_index(nodes: Iterable[Node]) -> DeviceIndex:
    """The GPUs of these nodes; nodes without GPUs are left out."""
    gpu_nodes = sorted((node for node in nodes if node.devices), key=lambda node: node.name)
    gpus = [
        (place, device)
        for place, node in enumerate(gpu_nodes)
        for device in sorted(node.devices, key=lambda device: device.index)
    ]
    models = tuple(sorted({device.model for _, device in gpus}))
    number = {model: place for place, model in enumerate(models)}
    return DeviceIndex(
        tuple(node.name for node in gpu_nodes),
        models,
        np.array([place for place, _ in gpus], np.int32),
        np.array([device.index for _, device in gpus], np.int32),
        np.array([number[device.model] for _, device in gpus], np.int32),
        np.array([device.memory_bytes for _, device in gpus], np.int64),
        encode_uuids(device.uuid for _, device in gpus),
    )


def encode(index: DeviceIndex) -> bytes:
    """Deterministic: equal indexes give equal bytes."""
    body = _encode(
        _EncodedIndex(
            index.nodes,
            index.models,
            index.node.astype("<i4").tobytes(),
            index.device.astype("<i4").tobytes(),
            index.model.astype("<i4").tobytes(),
            index.memory_bytes.astype("<i8").tobytes(),
            index.uuid.dtype.itemsize,
            index.uuid.tobytes(),
        )
    )
    return add_version(FORMAT_VERSION, body)


def decode(body: bytes) -> DeviceIndex:
    found = _decoder.decode(strip_version("lists of GPUs", FORMAT_VERSION, body))
    return DeviceIndex(
        found.nodes,
        found.models,
        np.frombuffer(found.node, "<i4"),
        np.frombuffer(found.device, "<i4"),
        np.frombuffer(found.model, "<i4"),
        np.frombuffer(found.memory_bytes, "<i8"),
        np.frombuffer(found.uuid, f"S{found.uuid_size}"),
    )
