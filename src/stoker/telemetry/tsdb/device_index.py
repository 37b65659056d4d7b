"""The GPUs of a cluster in a fixed order, by node and device. It never changes: other GPUs make another roster."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.node import Node
from stoker.domain.readings import Readings

DEVICES = 1 << 16
"""More than any node has; a node's place times this, plus the device, is a key that grows along the roster."""


class Roster(Struct, frozen=True, eq=False, dict=True):
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

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        return self.node.astype(np.int64) * DEVICES + self.device

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self.nodes)}

    def places(self, gpus: Sequence[tuple[str, int]]) -> NDArray[np.intp]:
        """Where each of these GPUs is, or -1."""
        wanted = [self.numbers.get(node, -1) * DEVICES + device for node, device in gpus]
        return self._found(np.array(wanted, np.int64))

    def rows_of(self, readings: Readings) -> NDArray[np.intp]:
        """For each GPU its row in the readings, or -1. A GPU that is read twice is taken once."""
        rows = np.full(self.gpus, -1, np.intp)
        places = np.array([self.numbers.get(name, -1) for name in readings.nodes], np.int64)[readings.node]
        found = self._found(places * DEVICES + readings.device)
        known = np.flatnonzero(found >= 0)
        rows[found[known]] = known
        return rows

    def _found(self, keys: NDArray[np.int64]) -> NDArray[np.intp]:
        if not self.gpus:
            return np.full(len(keys), -1, np.intp)
        found = np.minimum(np.searchsorted(self.keys, keys), self.gpus - 1)
        return np.where(self.keys[found] == keys, found, -1)


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
