"""Named metrics of a pod: its CPU and memory usage, and the metrics of an inference server in it.

Counters only grow until the server restarts. A histogram is a cumulative count for each upper bound.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct

MetricValues = Mapping[str, float]
"""Values by name; all are finite."""
BUCKET_SEPARATOR = " <= "


class PodSampleSource(StrEnum):
    """Where samples come from: process metering on the node, or the pod's `/metrics` endpoint."""

    USAGE = "use"
    INFERENCE = "inference"


class PodMetric(StrEnum):
    """Metrics of a pod. CPU is in thousandths of a core; KV cache usage is a fraction."""

    CPU_MILLI = "cpu_milli"
    MEMORY_BYTES = "memory_bytes"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    MAX_REQUESTS = "requests_most"
    KV_CACHE_USAGE = "cache_used"
    REQUESTS_SUCCEEDED = "succeeded"
    REQUESTS_FAILED = "failed"
    TIME_TO_FIRST_TOKEN_SECONDS = "first_token_seconds"
    LATENCY_SECONDS = "latency_seconds"
    LATENCY_SUM = "latency_sum"


HISTOGRAM_METRICS = (PodMetric.TIME_TO_FIRST_TOKEN_SECONDS, PodMetric.LATENCY_SECONDS)


class PodSampleBlock(Struct, frozen=True):
    """Samples of one pod in time order: a column of values, or None, for each metric."""

    pod_uid: str
    at: list[int]
    columns: dict[str, list[float | None]]


def bucket_name(histogram: PodMetric, bound: float) -> str:
    """The name of the histogram bucket with this upper bound."""
    return f"{histogram}{BUCKET_SEPARATOR}{bound!r}"


def bucket_names_by_bound(histogram: PodMetric, names: Iterable[str]) -> dict[float, str]:
    """The bucket names of a histogram by upper bound, in ascending order."""
    found = {
        float(name.removeprefix(start)): name
        for name in names
        if name.startswith(start := histogram + BUCKET_SEPARATOR)
    }
    return dict(sorted(found.items()))
