"""What each workspace uses of its quota.

`used` is all that is held or planned; `kept` what stays of it once those who leave have left; `planned` the part that
this plan adds. Only what a workload asks for is compared: a workspace that borrows GPUs may still start a CPU job.
"""

from stoker.domain.identity import Quota
from stoker.domain.resources import NONE, Resources
from stoker.scheduler.reasons import Resource
from stoker.scheduler.room import BOUNDLESS

EVERYTHING = Resources(1, 1, 1)


class Account:
    __slots__ = ("kept", "limit", "planned", "quota", "used")

    def __init__(self, quota: Quota, used: Resources = NONE, kept: Resources = NONE) -> None:
        self.set_quota(quota)
        self.used = used
        self.kept = kept
        self.planned = NONE

    def copy(self) -> "Account":
        return Account(self.quota, self.used, self.kept)

    def plan(self, asked: Resources) -> None:
        """Count on a workload that is to start, now or later."""
        self.used += asked
        self.kept += asked
        self.planned += asked

    def set_quota(self, quota: Quota) -> None:
        self.quota = quota
        self.limit = Resources(_limit(quota.gpu_milli), _limit(quota.cpu_milli), _limit(quota.memory_bytes))

    def within(self, ask: Resources) -> bool:
        """Whether this much more stays inside the quota now."""
        return _within(ask, self.used, self.limit)

    def within_later(self, ask: Resources, freed: Resources | None = None) -> bool:
        """The same once all that leaves has left, and `freed` besides."""
        return _within(ask, self.kept - freed if freed else self.kept, self.limit)

    def excess(self) -> Resources:
        """What is placed and stays, over the quota; less than nothing where there is quota left."""
        return self.kept - self.planned - self.limit

    @property
    def is_over(self) -> bool:
        return borrows(EVERYTHING, self.excess())

    def share(self, cluster: Resources) -> float:
        """The largest part used of any of its quotas; without a quota, of the cluster."""
        used, limit = self.used, self.limit
        return max(
            _part(used.gpu_milli, limit.gpu_milli, cluster.gpu_milli),
            _part(used.cpu_milli, limit.cpu_milli, cluster.cpu_milli),
            _part(used.memory_bytes, limit.memory_bytes, cluster.memory_bytes),
        )

    def short_of(self, ask: Resources) -> tuple[Resource, int, int, int] | None:
        """The first quota that this would break: what is asked, used and owed."""
        used, limit = self.used, self.limit
        for resource in Resource:
            asked, held, owed = resource.of(ask), resource.of(used), resource.of(limit)
            if asked and held + asked > owed:
                return resource, asked, held, owed
        return None


def borrows(held: Resources, excess: Resources) -> bool:
    """Whether what holds this much is there on borrowed room: its workspace is over its quota of some of it."""
    return (
        (excess.gpu_milli > 0 and held.gpu_milli > 0)
        or (excess.cpu_milli > 0 and held.cpu_milli > 0)
        or (excess.memory_bytes > 0 and held.memory_bytes > 0)
    )


def _limit(quota: int | None) -> int:
    return BOUNDLESS if quota is None else quota


def _within(ask: Resources, used: Resources, limit: Resources) -> bool:
    return (
        (used.gpu_milli + ask.gpu_milli <= limit.gpu_milli or not ask.gpu_milli)
        and (used.cpu_milli + ask.cpu_milli <= limit.cpu_milli or not ask.cpu_milli)
        and (used.memory_bytes + ask.memory_bytes <= limit.memory_bytes or not ask.memory_bytes)
    )


def _part(used: int, limit: int, cluster: int) -> float:
    whole = cluster if limit == BOUNDLESS else limit
    return used / whole if whole > 0 else float(used > 0)
