"""The latest utilization of every allocation: the input of everything that is said about idle GPUs."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.store.workloads.allocations import WorkloadAllocation
from stoker.telemetry.tsdb.device_index import DeviceIndex


class AllocationSamples(Struct, frozen=True, eq=False):
    """One row of `workload`, `gpu`, `milli` and `utilization` is an allocation: a GPU, or part of one, that a workload
    holds. `workload` is its place in `workloads`, `gpu` its row of the device index."""

    at: int
    device_index: DeviceIndex
    has_samples: bool
    """Whether any GPU of the cluster has a sample."""
    workloads: Sequence[WorkloadAllocation]
    is_running: NDArray[np.bool_]
    """By workload."""
    total_milli: NDArray[np.int64]
    """By workload; includes GPUs that the device index does not have any more."""
    workload: NDArray[np.int64]
    gpu: NDArray[np.int64]
    milli: NDArray[np.int64]
    utilization: NDArray[np.float64]
    """A fraction of one; NaN if the GPU has no sample that was taken during the allocation."""
