"""Quota usage of one workspace.

`used` is everything allocated or planned, `used_after_termination` the part that remains once terminating workloads are
gone, `planned` the part added by this plan. Only requested resources are compared with the quota: a workspace over its
GPU quota may still start a CPU job.
"""

from stoker.domain.access.identity import Quota
from stoker.domain.cluster.resources import NO_RESOURCES, Resources
from stoker.scheduler.capacity.node_free import UNLIMITED
from stoker.scheduler.explain.reasons import ResourceName

ALL_RESOURCES = Resources(1, 1, 1)


class QuotaUsage:
    __slots__ = ("nominal", "planned", "quota", "used", "used_after_termination")

    def __init__(
        self, quota: Quota, used: Resources = NO_RESOURCES, used_after_termination: Resources = NO_RESOURCES
    ) -> None:
        self.set_quota(quota)
        self.used = used
        self.used_after_termination = used_after_termination
        self.planned = NO_RESOURCES

    def copy(self) -> "QuotaUsage":
        return QuotaUsage(self.quota, self.used, self.used_after_termination)

    def charge(self, requested: Resources) -> None:
        """Add the request of a workload that starts now or on a reservation."""
        self.used += requested
        self.used_after_termination += requested
        self.planned += requested

    def set_quota(self, quota: Quota) -> None:
        self.quota = quota
        self.nominal = Resources(_nominal(quota.gpu_milli), _nominal(quota.cpu_milli), _nominal(quota.memory_bytes))

    def fits(self, request: Resources) -> bool:
        """Whether the request is within quota now."""
        return _fits(request, self.used, self.nominal)

    def fits_after_termination(self, request: Resources, freed: Resources | None = None) -> bool:
        """Whether the request is within quota once terminating workloads, and `freed`, are gone."""
        return _fits(
            request, self.used_after_termination - freed if freed else self.used_after_termination, self.nominal
        )

    def over_quota(self) -> Resources:
        """Lasting allocations minus the quota; negative where quota is left."""
        return self.used_after_termination - self.planned - self.nominal

    @property
    def is_over_quota(self) -> bool:
        return is_borrowed(ALL_RESOURCES, self.over_quota())

    def dominant_share(self, cluster: Resources) -> float:
        """The largest used fraction of any quota; without a quota, of the cluster's capacity."""
        used, limit = self.used, self.nominal
        return max(
            _share(used.gpu_milli, limit.gpu_milli, cluster.gpu_milli),
            _share(used.cpu_milli, limit.cpu_milli, cluster.cpu_milli),
            _share(used.memory_bytes, limit.memory_bytes, cluster.memory_bytes),
        )

    def first_exceeded(self, request: Resources) -> tuple[ResourceName, int, int, int] | None:
        """The first exceeded quota: resource, requested amount, used amount, quota."""
        used, limit = self.used, self.nominal
        for resource in ResourceName:
            requested, allocated, nominal = (
                resource.amount_in(request),
                resource.amount_in(used),
                resource.amount_in(limit),
            )
            if requested and allocated + requested > nominal:
                return resource, requested, allocated, nominal
        return None


def is_borrowed(allocated: Resources, over_quota: Resources) -> bool:
    """Whether an allocation uses a resource of which its workspace is over quota."""
    return (
        (over_quota.gpu_milli > 0 and allocated.gpu_milli > 0)
        or (over_quota.cpu_milli > 0 and allocated.cpu_milli > 0)
        or (over_quota.memory_bytes > 0 and allocated.memory_bytes > 0)
    )


def _nominal(quota: int | None) -> int:
    return UNLIMITED if quota is None else quota


def _fits(request: Resources, used: Resources, limit: Resources) -> bool:
    return (
        (used.gpu_milli + request.gpu_milli <= limit.gpu_milli or not request.gpu_milli)
        and (used.cpu_milli + request.cpu_milli <= limit.cpu_milli or not request.cpu_milli)
        and (used.memory_bytes + request.memory_bytes <= limit.memory_bytes or not request.memory_bytes)
    )


def _share(used: int, limit: int, cluster: int) -> float:
    whole = cluster if limit == UNLIMITED else limit
    return used / whole if whole > 0 else float(used > 0)
