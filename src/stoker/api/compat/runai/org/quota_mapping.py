"""Quotas and allocations of projects and departments, as Run:ai's models show them.

Run:ai counts memory in MiB and shows no limit as -1 for GPUs and as null for CPU and memory.
"""

from collections.abc import Sequence

from msgspec import Struct

from stoker.api.compat.runai.enums import to_number
from stoker.domain.access.identity import Quota
from stoker.domain.access.quotas import sum_quotas
from stoker.domain.cluster.node import DEFAULT_POOL
from stoker.domain.cluster.quantity import MIB
from stoker.services.fleet.queue_aggregates import WorkspaceAllocation

UNLIMITED = -1


class CpuQuota(Struct, frozen=True, rename="camel"):
    """The guaranteed amount; null is unlimited. Only preemptible workloads may exceed it."""

    deserved: float | None
    limit: float | None = None
    over_quota_weight: float | None = None


class GpuQuota(Struct, frozen=True, rename="camel"):
    """-1 is unlimited."""

    deserved: float
    limit: float = UNLIMITED
    over_quota_weight: float = 1


class MemoryQuota(Struct, frozen=True, rename="camel"):
    deserved: float | None
    units: str = "Mib"
    limit: float | None = None
    over_quota_weight: float | None = None


class PoolRef(Struct, frozen=True):
    id: str
    name: str


class PoolQuota(Struct, frozen=True, rename="camel"):
    node_pool: PoolRef
    gpu: GpuQuota
    cpu: CpuQuota
    memory: MemoryQuota


class QuotaSums(Struct, frozen=True, rename="camel"):
    gpu_quota: float
    cpu_quota: float | None
    memory_quota: float | None


class ResourceData(Struct, frozen=True):
    quota: float
    allocated: float


class PoolUsage(Struct, frozen=True, kw_only=True, rename="camel"):
    number_of_pending_workloads: int
    gpu: ResourceData
    cpu: ResourceData
    memory: ResourceData
    nodepool_name: str


class ProjectUsage(Struct, frozen=True):
    resources: list[PoolUsage]


def to_pool_usage(quota: Quota, allocation: WorkspaceAllocation, pending: int) -> PoolUsage:
    used = allocation.resources
    return PoolUsage(
        number_of_pending_workloads=pending,
        gpu=ResourceData(_to_limit(quota.gpu_milli, 1000), to_number(used.gpu_milli)),
        cpu=ResourceData(_to_limit(quota.cpu_milli, 1000), to_number(used.cpu_milli)),
        memory=ResourceData(_to_limit(quota.memory_bytes, MIB), used.memory_bytes / MIB),
        nodepool_name=DEFAULT_POOL,
    )


def to_pool_quota(quotas: Sequence[Quota]) -> PoolQuota:
    sums = to_quota_sums(quotas)
    return PoolQuota(
        PoolRef(DEFAULT_POOL, DEFAULT_POOL),
        GpuQuota(sums.gpu_quota),
        CpuQuota(sums.cpu_quota),
        MemoryQuota(sums.memory_quota),
    )


def to_quota_sums(quotas: Sequence[Quota]) -> QuotaSums:
    total = sum_quotas(quotas)
    return QuotaSums(
        _to_limit(total.gpu_milli, 1000),
        None if total.cpu_milli is None else to_number(total.cpu_milli),
        None if total.memory_bytes is None else total.memory_bytes / MIB,
    )


def _to_limit(amount: int | None, unit: int) -> float:
    return UNLIMITED if amount is None else amount / unit
