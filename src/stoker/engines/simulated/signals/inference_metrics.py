"""The metrics of simulated inference servers. Request rates follow the time of day. All values follow from the pod and
the time, so counters only grow."""

import functools
import math

from stoker.domain.metrics.pod_samples import MetricValues, PodMetric, bucket_name
from stoker.engines.simulated.seeded_random import seeded_rng
from stoker.engines.simulated.signals.gpu_load import DAY_SECONDS

MAX_REPORTING_PODS = 512
"""How many pods of the fleet report metrics; more would dominate the cost of a large fleet."""
MAX_BATCH_REQUESTS = 256
BUCKET_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, math.inf)
DAILY_AMPLITUDE = 0.6
"""How much the request rate varies from hour to hour."""
FAILURE_RATE = 0.004
_RADIANS_PER_SECOND = 2 * math.pi / DAY_SECONDS


def inference_values(pod_uid: str, begun_at: int, moment: int, speed: float, use: float) -> MetricValues:
    """The metrics at a time, of a pod that runs since `begun_at`; `use` is the utilization of its GPU."""
    rate, first, whole = _request_model(pod_uid)
    since, now = begun_at / 1000, moment / 1000
    passed = max(0.0, now - since) + DAILY_AMPLITUDE / _RADIANS_PER_SECOND * (
        math.cos(_RADIANS_PER_SECOND * since) - math.cos(_RADIANS_PER_SECOND * now)
    )
    done = int(rate * speed * max(0.0, passed))
    failed = int(done * FAILURE_RATE)
    running = min(MAX_BATCH_REQUESTS, round(rate * whole * (0.4 + use)))
    return {
        PodMetric.REQUESTS_RUNNING: running,
        PodMetric.REQUESTS_WAITING: max(0, round((use - 0.85) * 40)),
        PodMetric.MAX_REQUESTS: MAX_BATCH_REQUESTS,
        PodMetric.KV_CACHE_USAGE: round(min(0.98, running / MAX_BATCH_REQUESTS + 0.5 * use), 4),
        PodMetric.REQUESTS_SUCCEEDED: done - failed,
        PodMetric.REQUESTS_FAILED: failed,
        PodMetric.LATENCY_SUM: round(done * whole * 1.13, 3),
        **{
            bucket_name(PodMetric.TIME_TO_FIRST_TOKEN_SECONDS, bound): int(done * _latency_cdf(bound, first))
            for bound in BUCKET_BOUNDS
        },
        **{
            bucket_name(PodMetric.LATENCY_SECONDS, bound): int(done * _latency_cdf(bound, whole))
            for bound in BUCKET_BOUNDS
        },
    }


@functools.lru_cache(4096)
def _request_model(pod_uid: str) -> tuple[float, float, float]:
    """Requests per second, and the median seconds to the first and to the last token."""
    rolled = seeded_rng(pod_uid, "serving")
    return rolled.uniform(2, 12), rolled.uniform(0.04, 0.3), rolled.uniform(1.5, 6.0)


@functools.lru_cache(65_536)
def _latency_cdf(bound: float, median: float) -> float:
    """The share of requests that take at most this long: latencies are uniform on a logarithmic scale."""
    return 1.0 if math.isinf(bound) else 0.5 * (1 + math.erf(math.log(bound / median) / (0.5 * math.sqrt(2))))
