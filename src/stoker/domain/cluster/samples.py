"""Hardware samples of one cluster at one moment. Each row of the arrays is one GPU; unknown values are NaN."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.domain.cluster.gpu_identity import gpu_key, is_other_gpu
from stoker.domain.cluster.gpu_metric import GpuMetric
from stoker.domain.cluster.node import Device, Node
from stoker.domain.metrics.pod_samples import MetricValues


class GpuFault(Struct, frozen=True):
    """A fault that a GPU reports: an XID, ECC errors, a failed health check."""

    node: str
    device: int
    message: str
    uuid: str = ""


def group_faults_by_node(faults: Iterable[GpuFault]) -> dict[str, tuple[GpuFault, ...]]:
    """The faults of each node; the last of several faults of one GPU."""
    by_node: defaultdict[str, dict[str, GpuFault]] = defaultdict(dict)
    for fault in faults:
        by_node[fault.node][gpu_key(fault.node, fault.device, fault.uuid)] = fault
    return {node: tuple(by_gpu.values()) for node, by_gpu in by_node.items()}


def apply_device_faults(node: Node, faults: Collection[GpuFault]) -> Node:
    """The node with faults that samples of its GPUs reported. A fault reported by the engine takes precedence."""
    found = {device.index: _find_fault(device, faults) for device in node.devices if not device.fault} if faults else {}
    if not any(found.values()):
        return node
    devices = tuple(structs.replace(device, fault=device.fault or found[device.index]) for device in node.devices)
    return structs.replace(node, devices=devices)


def _find_fault(device: Device, faults: Iterable[GpuFault]) -> str:
    """The fault with the UUID of a device; else that at its index, unless it is known to be of another GPU."""
    at_index = ""
    for fault in faults:
        if device.uuid and fault.uuid == device.uuid:
            return fault.message
        if fault.device == device.index and not is_other_gpu(fault.uuid, device.uuid):
            at_index = fault.message
    return at_index


class RdmaSample(Struct, frozen=True):
    """The RDMA ports of one node. Byte rates are totals of all ports."""

    node: str
    ports: int
    active_ports: int
    bits_per_second: int
    """Line rate of one port."""
    received_bytes_per_second: float = 0.0
    sent_bytes_per_second: float = 0.0


class VolumeUsage(Struct, frozen=True):
    name: str
    total_bytes: int
    used_bytes: int


class PodUsage(Struct, frozen=True):
    """CPU and memory usage of a pod. `cpu_milli` is None until the second sample. `extra_metrics` come from
    the same collector."""

    pod_uid: str
    cpu_milli: int | None
    memory_bytes: int
    extra_metrics: MetricValues = {}


class GpuSamples(Struct, frozen=True):
    """Samples of all GPUs. `node` has indexes into `nodes`; `memory_total` is 0 if unknown. `sampled_at` is the time of
    each GPU's sample, None if it is `at` for all. `uuid` is empty for a GPU whose UUID is unknown, None if all are."""

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
    rdma: tuple[RdmaSample, ...] = ()
    volumes: tuple[VolumeUsage, ...] = ()
    pods: tuple[PodUsage, ...] = ()
    sampled_at: NDArray[np.int64] | None = None
    uuid: NDArray[np.bytes_] | None = None

    def values(self, metric: GpuMetric) -> NDArray[np.floating]:
        return getattr(self, metric)


def encode_uuids(uuids: Iterable[str]) -> NDArray[np.bytes_]:
    """UUIDs as one array, in which an empty string is a GPU without one."""
    return np.array([uuid.encode() for uuid in uuids], np.bytes_)


class Collector(Protocol):
    """A source of hardware samples of a cluster."""

    @property
    def name(self) -> str:
        """The name shown to users: `nvml`, `amd`, `prometheus`, `simulated`."""
        ...

    async def collect(self) -> GpuSamples:
        """Sample all hardware now. Raises StokerError UNAVAILABLE, naming the collector, if that fails."""
        ...

    async def close(self) -> None: ...


def empty_samples(at: int, nodes: tuple[str, ...] = (), pods: tuple[PodUsage, ...] = ()) -> GpuSamples:
    """Samples of a cluster without GPUs."""
    none = np.zeros(0)
    single = none.astype(np.float32)
    return GpuSamples(
        at, nodes, none.astype(np.int32), none.astype(np.int16), single, none, none, single, single, pods=pods
    )
