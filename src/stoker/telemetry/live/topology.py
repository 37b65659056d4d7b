"""The nodes of a cluster and their GPUs as arrays.

A topology depends on the nodes only and is built again when one of them changes.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.cluster.node import GpuCounts, Node, count_gpus
from stoker.telemetry.tsdb.device_index import DeviceIndex, build_device_index


class NodeHealth(Struct, frozen=True, gc=False):
    is_healthy: bool
    fault: str
    """The fault of the node or of its first faulty GPU, or an empty string."""
    gpus: GpuCounts


class Topology(Struct, frozen=True, eq=False):
    """One row of `gpu_counts`, `health`, `healthy` and `models` is one node, by name; `gpu_node_rows` has these rows
    for the GPUs of the device index."""

    nodes: tuple[Node, ...]
    device_index: DeviceIndex
    node_rows: dict[str, int]
    gpu_node_rows: NDArray[np.intp]
    gpu_counts: NDArray[np.int64]
    health: tuple[NodeHealth, ...]
    healthy: NDArray[np.bool_]
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
    if previous is not None and _has_same_gpus(previous.nodes, ordered):
        health = tuple(
            known if node is before else _node_health(node)
            for node, before, known in zip(ordered, previous.nodes, previous.health, strict=True)
        )
        return structs.replace(
            previous, nodes=ordered, health=health, healthy=_healthy_rows(health), totals=_sum_gpus(health)
        )
    health = tuple(_node_health(node) for node in ordered)
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
        health=health,
        healthy=_healthy_rows(health),
        totals=_sum_gpus(health),
        models=tuple(tuple(dict.fromkeys(device.model for device in node.devices)) for node in ordered),
        gpu_rows={key: position for position, key in enumerate(zip(names, index.device.tolist(), strict=True))},
    )


def _node_health(node: Node) -> NodeHealth:
    if node.is_healthy:
        return NodeHealth(True, "", count_gpus([node]))
    of_gpu = next((f"GPU {device.index}: {device.fault}" for device in node.devices if device.fault), "")
    return NodeHealth(False, node.fault or of_gpu, count_gpus([node]))


def _healthy_rows(health: Sequence[NodeHealth]) -> NDArray[np.bool_]:
    return np.fromiter((node.is_healthy for node in health), bool, len(health))


def _sum_gpus(health: Sequence[NodeHealth]) -> GpuCounts:
    gpus = [node.gpus for node in health]
    return GpuCounts(
        total=sum(counts.total for counts in gpus),
        faulty=sum(counts.faulty for counts in gpus),
        not_ready=sum(counts.not_ready for counts in gpus),
        cordoned=sum(counts.cordoned for counts in gpus),
    )


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
