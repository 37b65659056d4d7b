"""Nodes and their GPUs, as reported by an engine."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from stoker.domain.cluster.resources import MILLI, Resources

DEFAULT_POOL = "default"
CONTAINED_LABEL = "stoker.contained"
"""Node label that says whether its jobs are isolated from Stoker's own processes: `true` or `false`."""


class Device(Struct, frozen=True, gc=False):
    """One GPU. A `pretend` device was declared for tests and does not exist."""

    index: int
    uuid: str
    model: str
    memory_bytes: int = 0
    fault: str = ""
    pretend: bool = False


class DeviceRef(Struct, frozen=True, gc=False):
    """A GPU by its UUID and by where it sits now. The index is None if the engine does not know it; the UUID is empty
    if the hardware has none."""

    index: int | None
    uuid: str = ""


class Node(Struct, frozen=True):
    """A machine that runs workloads. A cordoned node accepts no new pods."""

    name: str
    cpu_milli: int
    memory_bytes: int
    devices: tuple[Device, ...] = ()
    pool: str = DEFAULT_POOL
    ready: bool = True
    cordoned: bool = False
    fault: str = ""
    address: str = ""
    labels: Mapping[str, str] = {}

    @property
    def is_healthy(self) -> bool:
        return self.ready and not self.fault and not any(device.fault for device in self.devices)

    @property
    def is_schedulable(self) -> bool:
        """Whether the node accepts new pods. Single faulty GPUs do not make a node unschedulable."""
        return self.ready and not self.fault and not self.cordoned

    @property
    def faulty_gpus(self) -> int:
        return sum(1 for device in self.devices if device.fault)

    @property
    def capacity(self) -> Resources:
        return Resources(len(self.devices) * MILLI, self.cpu_milli, self.memory_bytes)


class GpuCounts(Struct, frozen=True):
    """GPU counts, used wherever GPUs are counted. An unschedulable GPU counts once, by the first cause: it is faulty;
    its node is not ready or faulty; its node is cordoned."""

    total: int = 0
    faulty: int = 0
    not_ready: int = 0
    cordoned: int = 0

    @property
    def schedulable(self) -> int:
        """GPUs available to the scheduler, allocated or not."""
        return self.total - self.faulty - self.not_ready - self.cordoned


def count_gpus(nodes: Iterable[Node]) -> GpuCounts:
    total = faulty = not_ready = cordoned = 0
    for node in nodes:
        unusable = node.faulty_gpus
        healthy = len(node.devices) - unusable
        total += len(node.devices)
        faulty += unusable
        if not node.ready or node.fault:
            not_ready += healthy
        elif node.cordoned:
            cordoned += healthy
    return GpuCounts(total, faulty, not_ready, cordoned)
