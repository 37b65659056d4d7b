"""Running time, pending time and retry delay of a workload."""

from stoker.domain.backoff import exponential_backoff
from stoker.domain.workload.model import Workload

INITIAL_BACKOFF_MS = 1_000
MAX_BACKOFF_MS = 300_000


def total_running_ms(workload: Workload, now: int) -> int:
    """Running time over all attempts."""
    return workload.running_ms + (now - workload.running_since if workload.running_since is not None else 0)


def total_pending_ms(workload: Workload, now: int) -> int:
    """Time in the queue, over all waits."""
    return workload.pending_ms + (now - workload.phase_at if workload.phase.accrues_pending_time else 0)


def backoff_ms(retries: int) -> int:
    """Delay before the next attempt; it doubles with every retry up to the maximum."""
    return exponential_backoff(retries + 1, INITIAL_BACKOFF_MS, MAX_BACKOFF_MS)
