"""What inference servers of the fleet would print about themselves: requests come with the hour of the day, and take
as long as they do for this server. All of it follows from the pod and the time, so counts only grow."""

import functools
import math

from stoker.domain.pod_samples import PodMetric, Values, bucket
from stoker.engines.simulated.dice import dice
from stoker.engines.simulated.load import DAY_SECONDS

MOST = 512
"""So many pods of the fleet say something; a large one would have nothing else to do."""
BATCH = 256
BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, math.inf)
SWING = 0.6
"""How far the requests of an hour are from those of another."""
FAILING = 0.004
_TURN = 2 * math.pi / DAY_SECONDS


def served(pod_uid: str, begun_at: int, moment: int, speed: float, use: float) -> Values:
    """What is printed at a moment, by a pod that has run since another; `use` is of its GPU."""
    rate, first, whole = _figures(pod_uid)
    since, now = begun_at / 1000, moment / 1000
    passed = max(0.0, now - since) + SWING / _TURN * (math.cos(_TURN * since) - math.cos(_TURN * now))
    done = int(rate * speed * max(0.0, passed))
    failed = int(done * FAILING)
    running = min(BATCH, round(rate * whole * (0.4 + use)))
    return {
        PodMetric.REQUESTS_RUNNING: running,
        PodMetric.REQUESTS_WAITING: max(0, round((use - 0.85) * 40)),
        PodMetric.REQUESTS_MOST: BATCH,
        PodMetric.CACHE_USED: round(min(0.98, running / BATCH + 0.5 * use), 4),
        PodMetric.SUCCEEDED: done - failed,
        PodMetric.FAILED: failed,
        PodMetric.LATENCY_SUM: round(done * whole * 1.13, 3),
        **{bucket(PodMetric.FIRST_TOKEN_SECONDS, bound): int(done * _below(bound, first)) for bound in BOUNDS},
        **{bucket(PodMetric.LATENCY_SECONDS, bound): int(done * _below(bound, whole)) for bound in BOUNDS},
    }


@functools.lru_cache(4096)
def _figures(pod_uid: str) -> tuple[float, float, float]:
    """Requests a second, and the median seconds to the first token and to the last."""
    rolled = dice(pod_uid, "serving")
    return rolled.uniform(2, 12), rolled.uniform(0.04, 0.3), rolled.uniform(1.5, 6.0)


@functools.lru_cache(65_536)
def _below(bound: float, median: float) -> float:
    """The part of the requests that take no longer than this: times are spread evenly on a logarithmic scale."""
    return 1.0 if math.isinf(bound) else 0.5 * (1 + math.erf(math.log(bound / median) / (0.5 * math.sqrt(2))))
