"""Allocation snapshots: which workloads held which GPUs at one moment."""

from msgspec import Struct


class SnapshotWorkload(Struct, frozen=True):
    """A workload with GPUs; `utilization` is a fraction, None without a sample."""

    uid: str
    name: str
    namespace: str
    kind: str
    gpu_milli: int
    utilization: float | None
    annotations: dict[str, str]


class AllocationSnapshot(Struct, frozen=True):
    """All allocations at one moment. `workloads` is None if it was not requested."""

    id: int
    at: int
    gpus: int
    allocated_milli: int
    workloads: list[SnapshotWorkload] | None
    created_at: int
