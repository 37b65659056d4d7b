"""Encodes the GPU table of a live view. Columns that did not change are not encoded again."""

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from stoker.domain.cluster.live_view import GpuColumns
from stoker.domain.cluster.samples import GpuMetric
from stoker.telemetry.live.group_stats import nan_to_none
from stoker.telemetry.live.latest import LatestSamples
from stoker.telemetry.live.state import LiveClusterState
from stoker.telemetry.live.topology import Topology
from stoker.telemetry.tsdb.device_index import DeviceIndex

_encode = msgspec.msgpack.Encoder().encode


class GpuTableEncoder:
    """Encodes `GpuColumns` column by column, so that other threads get the interpreter lock in between."""

    def __init__(self) -> None:
        self._device_index: DeviceIndex | None = None
        self._static_columns: dict[str, Raw] = {}
        self._samples: LatestSamples | None = None
        self._hidden: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._sample_columns: dict[str, Raw] = {}

    def encode(self, state: LiveClusterState, idle_since: NDArray[np.int64]) -> bytes:
        """`idle_since` is by allocation, 0 for one that is not idle."""
        index, allocations = state.topology.device_index, state.allocations
        if self._device_index is not index:
            self._device_index, self._static_columns = index, _encode_static_columns(index)
        hidden = (state.allocated > 0) & ~state.measured_gpus()
        if self._samples is not state.samples or not np.array_equal(hidden, self._hidden):
            self._samples, self._hidden = state.samples, hidden
            self._sample_columns = _encode_sample_columns(state.samples, hidden)
        first = _first_allocations(state)
        slugs = [*(workload.slug for workload in allocations.workloads), None]
        allocation_columns = {
            "workload": _encode_column([slugs[row] for row in np.append(allocations.workload, -1)[first].tolist()]),
            "allocated_milli": _encode_column(state.allocated.tolist()),
            "fault": _encode_column(_gpu_faults(state.topology)),
            "idle_since": _encode_column([since or None for since in np.append(idle_since, 0)[first].tolist()]),
            "shared": _encode_column(_shared_allocations(state, first, idle_since)),
        }
        columns = {**self._static_columns, **allocation_columns, **self._sample_columns}
        return _encode({name: columns[name] for name in GpuColumns.__struct_fields__})


def _first_allocations(state: LiveClusterState) -> NDArray[np.int64]:
    """The oldest allocation of each GPU; -1 if it has none."""
    gpu = state.allocations.gpu
    first = np.full(state.topology.device_index.gpu_count, -1)
    first[gpu[::-1]] = np.arange(len(gpu))[::-1]
    return first


def _encode_static_columns(index: DeviceIndex) -> dict[str, Raw]:
    return {
        "node": _encode_column([index.nodes[row] for row in index.node.tolist()]),
        "device": _encode_column(index.device.tolist()),
        "model": _encode_column([index.models[row] for row in index.model.tolist()]),
        "uuid": _encode_column([uuid.decode() for uuid in index.uuid.tolist()]),
    }


def _encode_sample_columns(samples: LatestSamples, hidden: NDArray[np.bool_]) -> dict[str, Raw]:
    """The samples of GPUs. Those of `hidden` GPUs are of the allocation before the current one and not shown."""
    values = {metric: np.where(hidden, np.nan, array) for metric, array in samples.values.items()}
    memory_used = values[GpuMetric.MEMORY_USED]
    used_bytes: list[int | None] = np.nan_to_num(memory_used).astype(np.int64).tolist()
    for row in np.flatnonzero(np.isnan(memory_used)).tolist():
        used_bytes[row] = None
    return {
        "utilization": _encode_column(nan_to_none(values[GpuMetric.UTILIZATION])),
        "memory_used_bytes": _encode_column(used_bytes),
        "memory_total_bytes": _encode_column(samples.memory_bytes.tolist()),
        "power_watts": _encode_column(nan_to_none(values[GpuMetric.POWER], 1)),
        "temperature": _encode_column(nan_to_none(values[GpuMetric.TEMPERATURE], 1)),
    }


def _shared_allocations(
    state: LiveClusterState, first: NDArray[np.int64], idle_since: NDArray[np.int64]
) -> list[tuple]:
    """The allocations of GPUs beyond the first one of each."""
    allocations = state.allocations
    others = np.flatnonzero(first[allocations.gpu] != np.arange(len(allocations.gpu)))
    columns = (allocations.gpu, allocations.workload, allocations.milli, idle_since)
    rows = zip(*(column[others].tolist() for column in columns), strict=True)
    return [(gpu, allocations.workloads[workload].slug, milli, since or None) for gpu, workload, milli, since in rows]


def _gpu_faults(topology: Topology) -> list[str]:
    faults = [""] * topology.device_index.gpu_count
    for row in np.flatnonzero(~topology.healthy).tolist():
        node = topology.nodes[row]
        for device in node.devices:
            if device.fault:
                faults[topology.gpu_rows[node.name, device.index]] = device.fault
    return faults


def _encode_column(column: list) -> Raw:
    return Raw(_encode(column))
