"""The nodes of a simulated fleet, and the rows of their GPUs in the sample arrays."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.node import Device, Node
from stoker.domain.cluster.resources import MILLI
from stoker.domain.cluster.samples import encode_uuids
from stoker.engines.simulated.fleet.gpu_models import A100, GIB, H100, MI300X, MODELS, GpuModel
from stoker.engines.simulated.seeded_random import hash_seed

SIMULATED_LABEL = "stoker.simulated"
"""The label of every simulated node."""
TIB = 1024 * GIB
NODES_PER_RACK = 4
LARGE_NODE_GPUS = 16
SMALL_NODE_GPUS = 8
MIN_LARGE_NODES = 2
MIN_FLEET_GPUS = MIN_LARGE_NODES * LARGE_NODE_GPUS + 2 * SMALL_NODE_GPUS
"""Two large nodes, and one of each other kind."""


class MachineGroup(Struct, frozen=True):
    """A group of identical nodes."""

    nodes: int
    gpus: int
    model: GpuModel
    cores: int
    memory_bytes: int
    rdma_ports: int = 8
    rdma_bits_per_second: int = 400_000_000_000


def build_machine_groups(gpus: int = 1024, nodes: int = 0) -> tuple[MachineGroup, ...]:
    """Groups with about this many GPUs or exactly this many nodes: mostly MI300X and H100 with eight GPUs per node, and
    an eighth of the GPUs on nodes of sixteen."""
    if nodes:
        large = max(min(MIN_LARGE_NODES, nodes), nodes // 15)
        small = nodes - large
    else:
        large = max(MIN_LARGE_NODES, gpus // 8 // LARGE_NODE_GPUS)
        small = max(2, -(-(gpus - large * LARGE_NODE_GPUS) // SMALL_NODE_GPUS))
    amd = -(-small * 4 // 7)
    groups = (
        MachineGroup(amd, SMALL_NODE_GPUS, MI300X, 192, 2 * TIB),
        MachineGroup(small - amd, SMALL_NODE_GPUS, H100, 224, 2 * TIB),
        MachineGroup(large, LARGE_NODE_GPUS, A100, 384, 2 * TIB, rdma_bits_per_second=200_000_000_000),
    )
    return tuple(group for group in groups if group.nodes)


class SimulatedFleet:
    """Nodes `gpu-node-1`, `gpu-node-2`, … in the order of the groups. Every GPU is one row of the sample arrays."""

    def __init__(self, groups: Sequence[MachineGroup], seed: int) -> None:
        self.seed = seed
        made = [group for group in groups for _ in range(group.nodes)]
        self.node_groups = made
        self.nodes = tuple(_build_node(number, group, seed) for number, group in enumerate(made, 1))
        self.names = tuple(node.name for node in self.nodes)
        self.node_index = {name: place for place, name in enumerate(self.names)}
        sizes = np.array([group.gpus for group in made], np.int64)
        self.first_row: NDArray[np.int64] = np.concatenate(([0], np.cumsum(sizes)))
        self.row_node: NDArray[np.int32] = np.repeat(np.arange(len(made), dtype=np.int32), sizes)
        self.row_device: NDArray[np.int16] = (np.arange(len(self.row_node)) - self.first_row[self.row_node]).astype(
            np.int16
        )
        self.row_uuid = encode_uuids(device.uuid for node in self.nodes for device in node.devices)
        self.row_model: NDArray[np.int8] = np.repeat(
            np.array([MODELS.index(group.model) for group in made], np.int8), sizes
        )

    @property
    def gpu_count(self) -> int:
        return len(self.row_node)

    def device_rows(self, node: str, devices: Sequence[int]) -> list[int]:
        """The rows of these devices; none for an unknown node."""
        place = self.node_index.get(node)
        if place is None:
            return []
        first, end = int(self.first_row[place]), int(self.first_row[place + 1])
        return [first + device for device in devices if first + device < end]


def _build_node(number: int, group: MachineGroup, seed: int) -> Node:
    name = f"gpu-node-{number}"
    rack = (number - 1) // NODES_PER_RACK + 1
    prefix = "amd" if group.model.is_amd else "GPU"
    devices = tuple(
        Device(index, f"{prefix}-{hash_seed(seed, number, index):016x}", group.model.name, group.model.memory_bytes)
        for index in range(group.gpus)
    )
    return Node(
        name=name,
        cpu_milli=group.cores * MILLI,
        memory_bytes=group.memory_bytes,
        devices=devices,
        address=f"10.{100 + number // 65_536}.{number // 256 % 256}.{number % 256}",
        labels={SIMULATED_LABEL: "true", "rack": f"r{rack:02d}", "gpu": group.model.name.replace(" ", "_")},
    )
