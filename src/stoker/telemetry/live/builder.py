"""Builds the live view of one cluster. State is kept between builds, so that only what changed is computed again."""

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from stoker.domain.cluster.live_view import CollectorStatus, LiveViewKind
from stoker.domain.cluster.node import Node
from stoker.domain.cluster.samples import GpuFault, GpuSamples, apply_device_faults, group_faults_by_node
from stoker.domain.workload.idle import LONG_IDLE_MS
from stoker.store.cluster import live_views
from stoker.store.telemetry.gpu_samples import SampleChunk
from stoker.store.workloads.allocations import WorkloadAllocation
from stoker.telemetry.idle.tracker import IdleTracker, peak_utilization
from stoker.telemetry.live import summary
from stoker.telemetry.live.allocations import AllocationIndex
from stoker.telemetry.live.gpu_table import GpuTableEncoder
from stoker.telemetry.live.latest import LatestSamples, build_latest_samples, memory_sizes_in, no_samples
from stoker.telemetry.live.memory_sizes import MemorySizes
from stoker.telemetry.live.state import LiveClusterState, build_live_state
from stoker.telemetry.live.topology import build_topology
from stoker.telemetry.tsdb import device_index


class LiveViewBuilder:
    """Not thread-safe. A GPU whose utilization is not above `idle_percent` is idle."""

    def __init__(self, idle_percent: float = 1.0) -> None:
        self._nodes: dict[str, Node] = {}
        self._faults: Mapping[str, Collection[GpuFault]] = {}
        self._topology = build_topology(())
        self._allocations = AllocationIndex(self._topology)
        self._collected: GpuSamples | None = None
        self._slot: int | None = None
        self._memory_sizes = MemorySizes()
        self._device_index = self._topology.device_index
        """The device index of the topology, with the memory sizes that samples told."""
        self._latest: LatestSamples = no_samples(self._device_index)
        self._tick: list[SampleChunk] = []
        self._encoded_index = device_index.encode(self._topology.device_index)
        self._gpu_table = GpuTableEncoder()
        self.idle_tracker = IdleTracker(idle_percent)
        self.idle_milli: Mapping[str, int] = {}
        """Milli-GPUs by workload uid that have been idle for `LONG_IDLE_MS`."""

    @property
    def gpu_count(self) -> int:
        return self._topology.device_index.gpu_count

    @property
    def tick(self) -> list[SampleChunk]:
        """The latest samples, encoded as the stripes of a tick."""
        return self._tick

    @property
    def encoded_index(self) -> bytes:
        """The device index of the tick; the same object as long as the GPUs are the same."""
        return self._encoded_index

    def restore_memory_sizes(self, body: bytes) -> None:
        """Take memory sizes from a device index stored before a restart; those of a later call count."""
        self._memory_sizes.restore(device_index.decode(body))

    def reset(self, nodes: Iterable[Node], allocations: Iterable[WorkloadAllocation]) -> None:
        """Replace all nodes and allocations."""
        self._nodes = {node.name: node for node in nodes}
        self._rebuild_topology()
        self._allocations = AllocationIndex(self._topology, allocations)

    def update(self, nodes: Iterable[Node], uids: Iterable[str], allocations: Iterable[WorkloadAllocation]) -> None:
        """Replace these nodes, and the allocations of the workloads with these uids; one without any has none now."""
        changed = {node.name: node for node in nodes}
        if changed:
            self._nodes |= changed
            self._rebuild_topology()
            self._allocations.set_topology(self._topology)
        self._allocations.update(uids, allocations)

    def set_samples(self, samples: GpuSamples | None, slot: int | None = None, faults: Iterable[GpuFault] = ()) -> None:
        """Set the current samples, to be stored as the tick at `slot`; None once they are too old. Without samples,
        `faults` are the last faults that were reported."""
        self._collected, self._slot = samples, slot
        by_node = group_faults_by_node(faults if samples is None else samples.faults)
        if by_node != self._faults:
            self._faults = by_node
            self._rebuild_topology()
        self._refresh_samples()

    def _refresh_samples(self) -> None:
        samples, slot = self._collected, self._slot
        if samples is None:
            self._latest, self._tick = no_samples(self._device_index), []
            return
        rows = self._device_index.align(samples)
        known = self._device_index.memory_bytes
        sizes = self._memory_sizes.update(self._topology.device_index, known, memory_sizes_in(samples, rows))
        if sizes is not known:
            self._set_memory_sizes(sizes)
        self._latest, self._tick = build_latest_samples(
            self._device_index, samples, rows, samples.at if slot is None else slot
        )

    def build_parts(self, at: int, source: CollectorStatus) -> dict[LiveViewKind, bytes]:
        """Every part of the live view, encoded."""
        state = self._state(at)
        idle = self.idle_tracker.update(state.allocation_samples())
        self.idle_milli = idle.milli_by_workload(at - LONG_IDLE_MS)
        return {
            LiveViewKind.OVERVIEW: live_views.encode(summary.build_overview(state, source)),
            LiveViewKind.CONSUMERS: live_views.encode(summary.list_consumers(state, idle.since_by_workload())),
            LiveViewKind.NODES: live_views.encode(summary.list_nodes(state)),
            LiveViewKind.GPUS: self._gpu_table.encode(state, idle.measured_since),
        }

    def peak_utilization(self, namespaces: Collection[str]) -> dict[str, float | None]:
        """The utilization of the busiest GPU of each workload with GPUs, by uid; None if one has no sample."""
        return peak_utilization(self._state(0).allocation_samples(), namespaces)

    def _state(self, at: int) -> LiveClusterState:
        return build_live_state(at, self._topology, self._latest, self._allocations.allocations())

    def _rebuild_topology(self) -> None:
        before = self._topology.device_index
        nodes = (apply_device_faults(node, self._faults.get(name, ())) for name, node in self._nodes.items())
        self._topology = build_topology(nodes, self._topology)
        if self._topology.device_index is not before:
            self._set_memory_sizes(self._memory_sizes.sizes_for(self._topology.device_index))
            self._refresh_samples()

    def _set_memory_sizes(self, memory_bytes: NDArray[np.int64]) -> None:
        self._device_index = structs.replace(self._topology.device_index, memory_bytes=memory_bytes)
        body = device_index.encode(self._device_index)
        if body != self._encoded_index:
            self._encoded_index = body
