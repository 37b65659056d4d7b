"""Pod samples by the steps of a range: means, last values, increases over restarts, histograms and percentiles."""

import math

import pytest

from stoker.domain.cluster.resources import Resources
from stoker.domain.metrics.pod_samples import PodMetric, PodSampleBlock, bucket_name
from stoker.domain.metrics.series import TimeRange
from stoker.domain.workload.pod import Pod
from stoker.services.metrics.pod_aggregation import PodAggregator, percentiles

SPAN = TimeRange(10, 30, 10)
"""Three parts: (0, 10], (10, 20], (20, 30]."""
DONE = bucket_name(PodMetric.LATENCY_SECONDS, math.inf)
HALF = bucket_name(PodMetric.LATENCY_SECONDS, 0.5)


def pod(uid: str, started_at: int = 0) -> Pod:
    return Pod(
        uid=uid,
        workload_uid="w",
        name=uid,
        attempt=1,
        revision=1,
        rank=0,
        node="n",
        resources=Resources(),
        created_at=started_at,
        started_at=started_at,
    )


def said(*blocks: PodSampleBlock, from_at: int = 0, started_at: int = 0) -> PodAggregator:
    parts = PodAggregator(SPAN)
    parts.add_blocks(blocks, {block.pod_uid: pod(block.pod_uid, started_at) for block in blocks}, from_at)
    return parts


def test_a_part_is_the_mean_of_each_pod_and_pods_are_added_up_or_averaged() -> None:
    parts = said(
        PodSampleBlock("a", [5, 10, 30], {"x": [1.0, 3.0, 9.0]}),
        PodSampleBlock("b", [7, 40], {"x": [10.0, 99.0]}),
    )
    assert parts.sum_points("x") == [(12.0, 10), (9.0, 30)]
    assert parts.mean_points("x") == [(6.0, 10), (9.0, 30)]
    assert parts.last_points("x") == [(13.0, 10), (9.0, 30)]
    assert parts.sum_points("y") == []


def test_counts_grow_over_blocks_and_begin_again_with_their_server() -> None:
    parts = said(
        PodSampleBlock("a", [5, 15], {DONE: [4.0, 10.0], PodMetric.LATENCY_SUM: [2.0, 8.0]}),
        PodSampleBlock("a", [25, 28], {DONE: [3.0, 5.0], PodMetric.LATENCY_SUM: [1.0, 1.5]}),
    )
    assert parts.throughput() == [(400.0, 10), (600.0, 20), (500.0, 30)]
    assert parts.latency() == [(500.0, 10), (1000.0, 20), (300.0, 30)]


def test_what_was_counted_before_the_range_is_not_counted_in_it() -> None:
    before = PodSampleBlock("a", [-5, 5, 15], {DONE: [100.0, 101.0, 101.0]})
    assert said(before, from_at=-8, started_at=-100).throughput() == [(100.0, 10), (0.0, 20)]
    unknown = PodSampleBlock("a", [5, 15], {DONE: [101.0, 103.0]})
    assert said(unknown, from_at=-8, started_at=-100).throughput() == [(200.0, 20)]


def test_a_histogram_has_the_bounds_that_all_pods_have() -> None:
    parts = said(
        PodSampleBlock("a", [5], {HALF: [1.0], bucket_name(PodMetric.LATENCY_SECONDS, 2.0): [3.0], DONE: [4.0]}),
        PodSampleBlock("b", [5], {HALF: [5.0], DONE: [6.0]}),
    )
    assert parts.histograms(PodMetric.LATENCY_SECONDS) == [({0.5: 6.0, math.inf: 10.0}, 10)]
    assert parts.histograms(PodMetric.TIME_TO_FIRST_TOKEN_SECONDS) == []


def test_percentiles_lie_evenly_between_two_bounds() -> None:
    counts = {0.1: 50.0, 0.5: 90.0, 1.0: 98.0, math.inf: 100.0}
    assert percentiles(counts) == pytest.approx({"p50": 0.1, "p90": 0.5, "p99": 1.0})
    assert percentiles({1.0: 10.0, math.inf: 10.0}) == pytest.approx({"p50": 0.5, "p90": 0.9, "p99": 0.99})
    assert percentiles({1.0: 0.0, math.inf: 0.0}) == {}
