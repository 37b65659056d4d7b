"""Sums of quotas."""

from collections.abc import Iterable, Sequence

from stoker.domain.access.identity import Quota


def sum_quotas(quotas: Sequence[Quota]) -> Quota:
    """The quota of several workspaces together: a resource is unlimited as soon as one of them has no limit."""
    return Quota(
        gpu_milli=_sum_or_unlimited(quota.gpu_milli for quota in quotas),
        cpu_milli=_sum_or_unlimited(quota.cpu_milli for quota in quotas),
        memory_bytes=_sum_or_unlimited(quota.memory_bytes for quota in quotas),
    )


def _sum_or_unlimited(amounts: Iterable[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
