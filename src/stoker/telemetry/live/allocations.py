"""The GPU allocations of a cluster as arrays. They are updated workload by workload and read all at once."""

from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.resources import MILLI
from stoker.store.workloads.allocations import WorkloadAllocation
from stoker.telemetry.live.topology import Topology

_EMPTY = np.zeros(0, np.int64)


class Allocations(Struct, frozen=True, eq=False):
    """One row of `workload`, `gpu`, `milli` and `from_at` is an allocation of a GPU or part of one: the position in
    `workloads`, the row of the device index, the share, and since when. Allocations of GPUs that the cluster does not
    have any more count only in `total_milli`."""

    workloads: tuple[WorkloadAllocation, ...]
    total_milli: NDArray[np.int64]
    workload: NDArray[np.int64]
    gpu: NDArray[np.int64]
    milli: NDArray[np.int64]
    from_at: NDArray[np.int64]
    pods: NDArray[np.int64]
    """By node: the number of pods, and the CPU and memory allocated to them."""
    cpu_milli: NDArray[np.int64]
    memory_bytes: NDArray[np.int64]

    def allocated_milli(self, gpus: int) -> NDArray[np.int64]:
        """The allocated part of each GPU."""
        allocated = np.bincount(self.gpu, self.milli, gpus).astype(np.int64)
        return np.minimum(allocated, MILLI)


class _WorkloadAllocation(Struct, frozen=True, eq=False):
    workload: WorkloadAllocation
    total_milli: int
    gpu: NDArray[np.int64]
    milli: NDArray[np.int64]
    from_at: NDArray[np.int64]
    pods: NDArray[np.int64]
    """Rows of node, CPU and memory; the node is -1 if the cluster does not have it."""


class AllocationIndex:
    def __init__(self, topology: Topology, workloads: Iterable[WorkloadAllocation] = ()) -> None:
        self._topology = topology
        self._by_workload = {workload.uid: _build_allocation(topology, workload) for workload in workloads}
        self._merged: Allocations | None = None

    def set_topology(self, topology: Topology) -> None:
        """Replace the nodes; the rows of all allocations are looked up again if the GPUs differ."""
        if topology.gpu_rows is not self._topology.gpu_rows:
            self._merged = None
            self._by_workload = {
                uid: _build_allocation(topology, entry.workload) for uid, entry in self._by_workload.items()
            }
        self._topology = topology

    def update(self, uids: Iterable[str], allocations: Iterable[WorkloadAllocation]) -> None:
        """Replace the allocations of the workloads with these uids; one without any is removed."""
        self._merged = None
        current = {workload.uid: _build_allocation(self._topology, workload) for workload in allocations}
        self._by_workload |= current  # a workload that was in the dict keeps its position
        for uid in set(uids) - current.keys():
            self._by_workload.pop(uid, None)

    def allocations(self) -> Allocations:
        """All allocations; merged again only after a change."""
        self._merged = self._merged or self._merge()
        return self._merged

    def _merge(self) -> Allocations:
        entries = tuple(self._by_workload.values())
        nodes = len(self._topology.nodes)
        gpu = _concatenate([entry.gpu for entry in entries])
        milli = _concatenate([entry.milli for entry in entries])
        from_at = _concatenate([entry.from_at for entry in entries])
        workload = np.repeat(np.arange(len(entries)), [len(entry.gpu) for entry in entries])
        node, cpu, memory = _concatenate([entry.pods for entry in entries], _EMPTY.reshape(0, 3)).T
        known_gpu, known_node = gpu >= 0, node >= 0
        return Allocations(
            workloads=tuple(entry.workload for entry in entries),
            total_milli=np.array([entry.total_milli for entry in entries], np.int64),
            workload=workload[known_gpu],
            gpu=gpu[known_gpu],
            milli=milli[known_gpu],
            from_at=from_at[known_gpu],
            pods=np.bincount(node[known_node], minlength=nodes),
            cpu_milli=np.bincount(node[known_node], cpu[known_node], nodes).astype(np.int64),
            memory_bytes=np.bincount(node[known_node], memory[known_node], nodes).astype(np.int64),
        )


def _build_allocation(topology: Topology, workload: WorkloadAllocation) -> _WorkloadAllocation:
    milli = np.array([gpu.gpu_milli for gpu in workload.gpus], np.int64)
    pods = [
        (topology.node_rows.get(pod.node, -1), pod.resources.cpu_milli, pod.resources.memory_bytes)
        for pod in workload.pods
    ]
    return _WorkloadAllocation(
        workload,
        int(milli.sum()),
        np.array([topology.find_gpu(gpu.node, gpu.device, gpu.uuid) for gpu in workload.gpus], np.int64),
        milli,
        np.array([gpu.from_at for gpu in workload.gpus], np.int64),
        np.array(pods, np.int64).reshape(-1, 3),
    )


def _concatenate(arrays: list[NDArray[np.int64]], default: NDArray[np.int64] = _EMPTY) -> NDArray[np.int64]:
    return np.concatenate(arrays) if arrays else default
