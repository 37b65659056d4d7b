"""The GPUs of a cluster in a fixed order, by node and device. It never changes: other GPUs make another roster."""

from bisect import bisect_left
from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.node import Node
from stoker.domain.readings import Readings

DEVICES = 1 << 16
"""More than any node has; a node's place times this, plus the device, is a key that grows along the roster."""


class Roster(Struct, frozen=True, eq=False):
    """One row of every array is one GPU. `node` and `model` hold places in `nodes` and `models`; `memory_bytes` is 0
    where the size is not known."""

    nodes: tuple[str, ...]
    models: tuple[str, ...]
    node: NDArray[np.int32]
    device: NDArray[np.int32]
    model: NDArray[np.int32]
    memory_bytes: NDArray[np.int64]

    @property
    def gpus(self) -> int:
        return len(self.node)

    @property
    def keys(self) -> NDArray[np.int64]:
        return self.node.astype(np.int64) * DEVICES + self.device

    def place(self, node: str, device: int) -> int | None:
        """Where this GPU is."""
        at = bisect_left(self.nodes, node)
        if at == len(self.nodes) or self.nodes[at] != node:
            return None
        first, last = np.searchsorted(self.node, [at, at + 1])
        row = first + int(np.searchsorted(self.device[first:last], device))
        return int(row) if row < last and self.device[row] == device else None


class _Body(Struct, frozen=True, array_like=True):
    nodes: tuple[str, ...]
    models: tuple[str, ...]
    node: bytes
    device: bytes
    model: bytes
    memory_bytes: bytes


_decoder = msgspec.msgpack.Decoder(_Body)
_encode = msgspec.msgpack.Encoder().encode


def roster_of(nodes: Iterable[Node]) -> Roster:
    """The GPUs of these nodes; a node without any is not in it."""
    having = sorted((node for node in nodes if node.devices), key=lambda node: node.name)
    gpus = [
        (place, device)
        for place, node in enumerate(having)
        for device in sorted(node.devices, key=lambda device: device.index)
    ]
    models = tuple(sorted({device.model for _, device in gpus}))
    number = {model: place for place, model in enumerate(models)}
    return Roster(
        tuple(node.name for node in having),
        models,
        np.array([place for place, _ in gpus], np.int32),
        np.array([device.index for _, device in gpus], np.int32),
        np.array([number[device.model] for _, device in gpus], np.int32),
        np.array([device.memory_bytes for _, device in gpus], np.int64),
    )


def encode(roster: Roster) -> bytes:
    """The same bytes for the same GPUs."""
    return _encode(
        _Body(
            roster.nodes,
            roster.models,
            roster.node.astype("<i4").tobytes(),
            roster.device.astype("<i4").tobytes(),
            roster.model.astype("<i4").tobytes(),
            roster.memory_bytes.astype("<i8").tobytes(),
        )
    )


def decode(body: bytes) -> Roster:
    found = _decoder.decode(body)
    return Roster(
        found.nodes,
        found.models,
        np.frombuffer(found.node, "<i4"),
        np.frombuffer(found.device, "<i4"),
        np.frombuffer(found.model, "<i4"),
        np.frombuffer(found.memory_bytes, "<i8"),
    )


def rows_of(roster: Roster, readings: Readings) -> NDArray[np.intp]:
    """For each GPU of the roster its row in the readings, or -1. A GPU that is read twice is taken once."""
    rows = np.full(roster.gpus, -1, np.intp)
    if not roster.gpus or not len(readings.node):
        return rows
    number = {name: place for place, name in enumerate(roster.nodes)}
    places = np.array([number.get(name, -1) for name in readings.nodes], np.int64)[readings.node]
    read = places * DEVICES + readings.device
    keys = roster.keys
    found = np.minimum(np.searchsorted(keys, read), len(keys) - 1)
    known = np.flatnonzero((places >= 0) & (keys[found] == read))
    rows[found[known]] = known
    return rows
