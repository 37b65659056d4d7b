"""What the hardware of one cluster says at one moment. One row of every array is one GPU; what is not known is NaN."""

from enum import StrEnum
from typing import Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.pod_samples import Values


class Metric(StrEnum):
    """What is measured of a GPU: a fraction of one, bytes, watts, degrees Celsius."""

    UTILIZATION = "utilization"
    MEMORY_USED = "memory_used"
    POWER = "power"
    TEMPERATURE = "temperature"


class GpuFault(Struct, frozen=True):
    """A GPU that says of itself that something is wrong with it: an XID, ECC errors, a bad health check."""

    node: str
    device: int
    message: str


class Rdma(Struct, frozen=True):
    """The RDMA ports of one node. Rates are of all of them together."""

    node: str
    ports: int
    active_ports: int
    bits_per_second: int
    """What one port can do."""
    received_bytes_per_second: float = 0.0
    sent_bytes_per_second: float = 0.0


class Volume(Struct, frozen=True):
    name: str
    total_bytes: int
    used_bytes: int


class PodUse(Struct, frozen=True):
    """What a pod takes of its node, whether it has GPUs or not. `said` is what else is known of it by the same way."""

    pod_uid: str
    cpu_milli: int
    memory_bytes: int
    said: Values = {}


class Readings(Struct, frozen=True):
    """`node` holds places in `nodes`; `memory_total` is 0 where the size is not known."""

    at: int
    nodes: tuple[str, ...]
    node: NDArray[np.int32]
    device: NDArray[np.int16]
    utilization: NDArray[np.float32]
    memory_used: NDArray[np.float64]
    memory_total: NDArray[np.float64]
    power: NDArray[np.float32]
    temperature: NDArray[np.float32]
    faults: tuple[GpuFault, ...] = ()
    rdma: tuple[Rdma, ...] = ()
    volumes: tuple[Volume, ...] = ()
    pods: tuple[PodUse, ...] = ()

    def metric(self, metric: Metric) -> NDArray[np.floating]:
        return getattr(self, metric)


class Source(Protocol):
    """Where the readings of a cluster come from."""

    @property
    def name(self) -> str:
        """As users see it: `nvml`, `amd`, `prometheus`, `simulated`."""
        ...

    async def readings(self) -> Readings:
        """Everything, read now. Raises StokerError BACKEND_DOWN, naming itself, when it cannot be read."""
        ...

    async def close(self) -> None: ...


def no_gpus(at: int, nodes: tuple[str, ...] = (), pods: tuple[PodUse, ...] = ()) -> Readings:
    """The readings of a cluster without GPUs."""
    none = np.zeros(0)
    single = none.astype(np.float32)
    return Readings(
        at, nodes, none.astype(np.int32), none.astype(np.int16), single, none, none, single, single, pods=pods
    )
