"""Nodes and the GPUs in them, as an engine reports them."""

from collections.abc import Mapping

from msgspec import Struct

from stoker.domain.resources import MILLI, Resources

DEFAULT_POOL = "default"
CONTAINED = "stoker.contained"
"""The label of a node that says whether jobs on it are kept from the platform: `true` or `false`."""


class Device(Struct, frozen=True, gc=False):
    """One GPU. `pretend` is a device that was declared for tests and does not exist."""

    index: int
    uuid: str
    model: str
    memory_bytes: int = 0
    fault: str = ""
    pretend: bool = False


class Node(Struct, frozen=True):
    """A machine that workloads run on. A cordoned node is healthy but takes nothing new."""

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
    def healthy(self) -> bool:
        return self.ready and not self.fault and not any(device.fault for device in self.devices)

    @property
    def capacity(self) -> Resources:
        return Resources(len(self.devices) * MILLI, self.cpu_milli, self.memory_bytes)
