"""The nodes of a simulated fleet: how many of which kind, and where each of their GPUs stands in the columns."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.node import Device, Node
from stoker.domain.resources import MILLI
from stoker.engines.simulated.devices import A100, GIB, H100, MI300X, MODELS, GpuModel
from stoker.engines.simulated.dice import mixed

SIMULATED = "stoker.simulated"
"""The label of every simulated node."""
TIB = 1024 * GIB
NODES_IN_A_RACK = 4
LARGE_GPUS = 16
SMALL_GPUS = 8
FEWEST_LARGE = 2
FEWEST_GPUS = FEWEST_LARGE * LARGE_GPUS + 2 * SMALL_GPUS
"""Two large nodes, and one of each of the others."""


class Group(Struct, frozen=True):
    """Nodes that are all alike."""

    nodes: int
    gpus: int
    model: GpuModel
    cores: int
    memory_bytes: int
    rdma_ports: int = 8
    rdma_bits_per_second: int = 400_000_000_000


def fleet_of(gpus: int = 1024, nodes: int = 0) -> tuple[Group, ...]:
    """Groups with about so many GPUs, or with exactly so many nodes: mostly MI300X and H100, eight to a node, and an
    eighth of the GPUs sixteen to a node."""
    if nodes:
        large = max(min(FEWEST_LARGE, nodes), nodes // 15)
        small = nodes - large
    else:
        large = max(FEWEST_LARGE, gpus // 8 // LARGE_GPUS)
        small = max(2, -(-(gpus - large * LARGE_GPUS) // SMALL_GPUS))
    amd = -(-small * 4 // 7)
    groups = (
        Group(amd, SMALL_GPUS, MI300X, 192, 2 * TIB),
        Group(small - amd, SMALL_GPUS, H100, 224, 2 * TIB),
        Group(large, LARGE_GPUS, A100, 384, 2 * TIB, rdma_bits_per_second=200_000_000_000),
    )
    return tuple(group for group in groups if group.nodes)


class Machines:
    """Nodes `gpu-node-1`, `gpu-node-2`, … in the order of the groups. One row of every column is one GPU."""

    def __init__(self, groups: Sequence[Group], seed: int) -> None:
        self.seed = seed
        made = [group for group in groups for _ in range(group.nodes)]
        self.groups = made
        self.nodes = tuple(_node(number, group, seed) for number, group in enumerate(made, 1))
        self.names = tuple(node.name for node in self.nodes)
        self.place = {name: place for place, name in enumerate(self.names)}
        sizes = np.array([group.gpus for group in made], np.int64)
        self.first: NDArray[np.int64] = np.concatenate(([0], np.cumsum(sizes)))
        self.node: NDArray[np.int32] = np.repeat(np.arange(len(made), dtype=np.int32), sizes)
        self.device: NDArray[np.int16] = (np.arange(len(self.node)) - self.first[self.node]).astype(np.int16)
        self.model: NDArray[np.int8] = np.repeat(
            np.array([MODELS.index(group.model) for group in made], np.int8), sizes
        )

    @property
    def gpus(self) -> int:
        return len(self.node)

    def rows(self, node: str, devices: Sequence[int]) -> list[int]:
        """Where these devices stand in the columns; a node that is not here has none."""
        place = self.place.get(node)
        if place is None:
            return []
        first, end = int(self.first[place]), int(self.first[place + 1])
        return [first + device for device in devices if first + device < end]


def _node(number: int, group: Group, seed: int) -> Node:
    name = f"gpu-node-{number}"
    rack = (number - 1) // NODES_IN_A_RACK + 1
    prefix = "amd" if group.model.is_amd else "GPU"
    devices = tuple(
        Device(index, f"{prefix}-{mixed(seed, number, index):016x}", group.model.name, group.model.memory_bytes)
        for index in range(group.gpus)
    )
    return Node(
        name=name,
        cpu_milli=group.cores * MILLI,
        memory_bytes=group.memory_bytes,
        devices=devices,
        address=f"10.{100 + number // 65_536}.{number // 256 % 256}.{number % 256}",
        labels={SIMULATED: "true", "rack": f"r{rack:02d}", "gpu": group.model.name.replace(" ", "_")},
    )
