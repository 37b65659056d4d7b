"""What simulated inference servers say is possible: counts grow, histograms add up, and it is the same every time."""

import math

from stoker.domain.metrics.pod_samples import HISTOGRAM_METRICS, PodMetric, bucket_names_by_bound
from stoker.engines.simulated.signals.inference_metrics import inference_values

HOUR = 3_600_000


def test_counts_only_grow_and_histograms_hold_every_request() -> None:
    before = inference_values("pod", 0, 0, 1.0, 0.5)
    assert before[PodMetric.REQUESTS_SUCCEEDED] == 0
    for hour in range(1, 60):
        now = inference_values("pod", 0, hour * HOUR, 1.0, 0.5)
        assert now == inference_values("pod", 0, hour * HOUR, 1.0, 0.5)
        done = now[PodMetric.REQUESTS_SUCCEEDED] + now[PodMetric.REQUESTS_FAILED]
        assert done > before[PodMetric.REQUESTS_SUCCEEDED] + before[PodMetric.REQUESTS_FAILED]
        for histogram in HISTOGRAM_METRICS:
            counts = {bound: now[name] for bound, name in bucket_names_by_bound(histogram, now).items()}
            assert list(counts.values()) == sorted(counts.values())
            assert counts[math.inf] == done
            assert all(now[name] >= before[name] for name in bucket_names_by_bound(histogram, now).values())
        assert 0 < now[PodMetric.KV_CACHE_USAGE] <= 1
        before = now


def test_servers_differ_and_are_busier_with_their_gpus() -> None:
    day = 24 * HOUR
    assert inference_values("one", 0, day, 1.0, 0.5) != inference_values("other", 0, day, 1.0, 0.5)
    idle, busy = inference_values("one", 0, day, 1.0, 0.0), inference_values("one", 0, day, 1.0, 1.0)
    assert idle[PodMetric.REQUESTS_RUNNING] < busy[PodMetric.REQUESTS_RUNNING] <= busy[PodMetric.MAX_REQUESTS]
    assert idle[PodMetric.REQUESTS_WAITING] == 0 < busy[PodMetric.REQUESTS_WAITING]
