"""What simulated inference servers say is possible: counts grow, histograms add up, and it is the same every time."""

import math

from stoker.domain.pod_samples import HISTOGRAMS, PodMetric, bounds
from stoker.engines.simulated.serving import served

HOUR = 3_600_000


def test_counts_only_grow_and_histograms_hold_every_request() -> None:
    before = served("pod", 0, 0, 1.0, 0.5)
    assert before[PodMetric.SUCCEEDED] == 0
    for hour in range(1, 60):
        now = served("pod", 0, hour * HOUR, 1.0, 0.5)
        assert now == served("pod", 0, hour * HOUR, 1.0, 0.5)
        done = now[PodMetric.SUCCEEDED] + now[PodMetric.FAILED]
        assert done > before[PodMetric.SUCCEEDED] + before[PodMetric.FAILED]
        for histogram in HISTOGRAMS:
            counts = {bound: now[name] for bound, name in bounds(histogram, now).items()}
            assert list(counts.values()) == sorted(counts.values())
            assert counts[math.inf] == done
            assert all(now[name] >= before[name] for name in bounds(histogram, now).values())
        assert 0 < now[PodMetric.CACHE_USED] <= 1
        before = now


def test_servers_differ_and_are_busier_with_their_gpus() -> None:
    day = 24 * HOUR
    assert served("one", 0, day, 1.0, 0.5) != served("other", 0, day, 1.0, 0.5)
    idle, busy = served("one", 0, day, 1.0, 0.0), served("one", 0, day, 1.0, 1.0)
    assert idle[PodMetric.REQUESTS_RUNNING] < busy[PodMetric.REQUESTS_RUNNING] <= busy[PodMetric.REQUESTS_MOST]
    assert idle[PodMetric.REQUESTS_WAITING] == 0 < busy[PodMetric.REQUESTS_WAITING]
