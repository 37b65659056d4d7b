"""What is measured of a pod, under names: what it takes of its node, and what an inference server in it says of itself.

Counts only grow until the server begins again. A histogram is a count for each upper bound, of all that lies below.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

Values = Mapping[str, float]
"""By name; every one is finite."""
BELOW = " <= "


class PodSource(StrEnum):
    """Who measured: the meter of the node, or the pod's own `/metrics`."""

    USE = "use"
    INFERENCE = "inference"


class PodMetric(StrEnum):
    """Cores in thousandths; the use of the key-value cache is a fraction of one."""

    CPU_MILLI = "cpu_milli"
    MEMORY_BYTES = "memory_bytes"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    REQUESTS_MOST = "requests_most"
    CACHE_USED = "cache_used"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    FIRST_TOKEN_SECONDS = "first_token_seconds"
    LATENCY_SECONDS = "latency_seconds"
    LATENCY_SUM = "latency_sum"


HISTOGRAMS = (PodMetric.FIRST_TOKEN_SECONDS, PodMetric.LATENCY_SECONDS)


class PodBlock(Struct, frozen=True):
    """Some moments of one pod, in their order, and a value or None of each name at each of them."""

    pod_uid: str
    at: list[int]
    columns: dict[str, list[float | None]]


def bucket(histogram: PodMetric, bound: float) -> str:
    """The name of the count of all that is not above the bound."""
    return f"{histogram}{BELOW}{bound!r}"


def bounds(histogram: PodMetric, names: Iterable[str]) -> dict[float, str]:
    """The names of its counts by their upper bounds, in order."""
    found = {float(name.removeprefix(start)): name for name in names if name.startswith(start := histogram + BELOW)}
    return dict(sorted(found.items()))
