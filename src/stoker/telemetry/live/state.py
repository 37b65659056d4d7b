"""Everything that a live view is computed from: topology, latest samples and allocations at one moment."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.workload.model import Phase
from stoker.telemetry.idle.samples import AllocationSamples
from stoker.telemetry.live.allocations import Allocations
from stoker.telemetry.live.latest import LatestSamples
from stoker.telemetry.live.topology import Topology

RUNNING_PHASES = frozenset({Phase.RUNNING, Phase.DEGRADED, Phase.UPDATING, Phase.STOPPING, Phase.TERMINATING})


class LiveClusterState(Struct, frozen=True, eq=False):
    """`allocated` is the allocated milli-GPUs of each GPU. `is_own_sample` tells of each allocation whether the sample
    of its GPU was taken since it began, and not during the allocation before it."""

    at: int
    topology: Topology
    samples: LatestSamples
    allocations: Allocations
    allocated: NDArray[np.int64]
    is_own_sample: NDArray[np.bool_]

    def by_allocation(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of GPUs as values of allocations; NaN where the sample is not the allocation's own."""
        return np.where(self.is_own_sample, values[self.allocations.gpu], np.nan)

    def measured_gpus(self) -> NDArray[np.bool_]:
        """The GPUs with a sample of a current allocation."""
        measured = np.zeros(self.topology.device_index.gpu_count, np.bool_)
        measured[self.allocations.gpu[self.is_own_sample]] = True
        return measured

    def allocation_samples(self) -> AllocationSamples:
        """The utilization of each allocation, which idle times are computed from."""
        allocations, utilization = self.allocations, self.samples.values[GpuMetric.UTILIZATION]
        return AllocationSamples(
            at=self.at,
            device_index=self.topology.device_index,
            has_samples=not np.isnan(utilization).all(),
            workloads=allocations.workloads,
            is_running=np.array([workload.phase in RUNNING_PHASES for workload in allocations.workloads], np.bool_),
            total_milli=allocations.total_milli,
            workload=allocations.workload,
            gpu=allocations.gpu,
            milli=allocations.milli,
            utilization=self.by_allocation(utilization),
        )


def build_live_state(at: int, topology: Topology, samples: LatestSamples, allocations: Allocations) -> LiveClusterState:
    is_own_sample = samples.sampled_at[allocations.gpu] >= allocations.from_at
    allocated = allocations.allocated_milli(topology.device_index.gpu_count)
    return LiveClusterState(at, topology, samples, allocations, allocated, is_own_sample)
