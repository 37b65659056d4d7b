"""The nodes of a cluster and their GPUs as arrays.

A topology depends on the nodes only and is built again when one of them changes.
"""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.cluster.node import GpuCounts, Node, count_gpus
from stoker.telemetry.tsdb.device_index import DeviceIndex, build_device_index


class Topology(Struct, frozen=True, eq=False):
    """One row of `gpu_counts`, `healthy`, `faults` and `models` is one node, by name; `gpu_node_rows` has these rows
    for the GPUs of the device index."""

    nodes: tuple[Node, ...]
    device_index: DeviceIndex
    node_rows: dict[str, int]
    gpu_node_rows: NDArray[np.intp]
    gpu_counts: NDArray[np.int64]
    healthy: NDArray[np.bool_]
    faults: tuple[str, ...]
    """The fault of each node, or an empty string."""
    totals: GpuCounts
    models: tuple[tuple[str, ...], ...]
    gpu_rows: dict[tuple[str, int], int]
    """The row of each GPU in the device index, by node and device."""

    def find_gpu(self, node: str, device: int | None, uuid: str) -> int:
        """The row of a GPU, found as the device index finds it; -1 if the cluster does not have it."""
        index = self.device_index
        row = self.gpu_rows.get((node, device), -1) if device is not None else -1
        if not uuid or (row >= 0 and index.uuid[row] in (uuid.encode(), b"")):
            return row
        return index.rows_by_uuid.get(uuid.encode(), -1)


def build_topology(nodes: Iterable[Node], previous: Topology | None = None) -> Topology:
    """With the GPUs of the previous topology, its device index is used again."""
    ordered = tuple(sorted(nodes, key=lambda node: node.name))
    healthy = np.fromiter((node.is_healthy for node in ordered), bool, len(ordered))
    faults = tuple(
        "" if is_healthy else _node_fault(node) for node, is_healthy in zip(ordered, healthy.tolist(), strict=True)
    )
    if previous is not None and _has_same_gpus(previous.nodes, ordered):
        return structs.replace(previous, nodes=ordered, healthy=healthy, faults=faults, totals=count_gpus(ordered))
    index = build_device_index(ordered)
    row = {node.name: position for position, node in enumerate(ordered)}
    rows = np.array([row[name] for name in index.nodes], np.intp)
    names = [index.nodes[position] for position in index.node.tolist()]
    return Topology(
        nodes=ordered,
        device_index=index,
        node_rows=row,
        gpu_node_rows=rows[index.node],
        gpu_counts=np.fromiter((len(node.devices) for node in ordered), np.int64, len(ordered)),
        healthy=healthy,
        faults=faults,
        totals=count_gpus(ordered),
        models=tuple(tuple(dict.fromkeys(device.model for device in node.devices)) for node in ordered),
        gpu_rows={key: position for position, key in enumerate(zip(names, index.device.tolist(), strict=True))},
    )


def _node_fault(node: Node) -> str:
    return node.fault or next((f"GPU {device.index}: {device.fault}" for device in node.devices if device.fault), "")


def _has_same_gpus(before: tuple[Node, ...], after: tuple[Node, ...]) -> bool:
    return len(before) == len(after) and all(
        old is new
        or (
            old.name == new.name
            and len(old.devices) == len(new.devices)
            and all(
                (a.index, a.uuid, a.model, a.memory_bytes) == (b.index, b.uuid, b.model, b.memory_bytes)
                for a, b in zip(old.devices, new.devices, strict=True)
            )
        )
        for old, new in zip(before, after, strict=True)
    )
