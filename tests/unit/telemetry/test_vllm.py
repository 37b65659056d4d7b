"""What inference servers print: vLLM's names and NIM's, and pages that mean no good."""

import math

import pytest

from stoker.domain.metrics.pod_samples import PodMetric, bucket_name, bucket_names_by_bound
from stoker.telemetry.scrape.vllm import MAX_BUCKETS, parse_metrics

VLLM = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta/llama"} 3.0
vllm:num_requests_running{engine="1",model_name="meta/llama"} 2.0
vllm:num_requests_waiting{engine="0",model_name="meta/llama"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="meta/llama"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="meta/llama"} 0.75
vllm:request_success_total{engine="0",finished_reason="stop",model_name="meta/llama"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="meta/llama"} 2.0
vllm:request_success_total{engine="0",finished_reason="abort",model_name="meta/llama"} 5.0
vllm:request_success_created{engine="0",finished_reason="stop",model_name="meta/llama"} 1.7e+09
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="meta/llama"} 1.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="1.0",model_name="meta/llama"} 8.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="meta/llama"} 9.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="meta/llama"} 4.5
vllm:e2e_request_latency_seconds_bucket{engine="0",le="+Inf",model_name="meta/llama"} 47.0
vllm:e2e_request_latency_seconds_sum{engine="0",model_name="meta/llama"} 94.0
vllm:prompt_tokens_total{engine="0",model_name="meta/llama"} 123456.0
"""
NIM = """
num_requests_running{model_name="m"} 4
num_request_max{model_name="m"} 256
gpu_cache_usage_perc{model_name="m"} 0.5
request_success_total{model_name="m"} 11
request_failure_total{model_name="m"} 1
request_finish_total{finished_reason="stop",model_name="m"} 11
vllm:num_requests_running{model_name="m"} 4
"""


def test_vllm_is_understood_over_all_its_engines() -> None:
    found = parse_metrics(VLLM)
    assert found[PodMetric.REQUESTS_RUNNING] == 5
    assert found[PodMetric.REQUESTS_WAITING] == 7
    assert found[PodMetric.KV_CACHE_USAGE] == 0.5
    assert (found[PodMetric.REQUESTS_SUCCEEDED], found[PodMetric.REQUESTS_FAILED]) == (42, 5)
    first = bucket_names_by_bound(PodMetric.TIME_TO_FIRST_TOKEN_SECONDS, found)
    assert {bound: found[name] for bound, name in first.items()} == {0.001: 1, 1.0: 8, math.inf: 9}
    assert found[PodMetric.LATENCY_SUM] == 94


def test_nim_is_understood_and_what_it_repeats_counts_once() -> None:
    assert parse_metrics(NIM) == {
        PodMetric.REQUESTS_RUNNING: 4,
        PodMetric.MAX_REQUESTS: 256,
        PodMetric.KV_CACHE_USAGE: 0.5,
        PodMetric.REQUESTS_SUCCEEDED: 11,
        PodMetric.REQUESTS_FAILED: 1,
    }
    finished = 'request_finish_total{finished_reason="stop"} 3\nrequest_finish_total{finished_reason="error"} 2\n'
    assert parse_metrics(finished) == {PodMetric.REQUESTS_SUCCEEDED: 3, PodMetric.REQUESTS_FAILED: 2}


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<html>not here</html>",
        "num_requests_running NaN",
        "num_requests_running +Inf",
        "num_requests_running -1",
        "num_requests_running 1e300",
        "num_requests_running{",
        "num_requests_running",
        "num_requests_running lots",
        'e2e_request_latency_seconds_bucket{le="0.5"} 3',
        'e2e_request_latency_seconds_bucket{le="NaN"} 3',
        'e2e_request_latency_seconds_bucket{le="much"} 3',
        "some_other_thing 5",
        "\x00\ufffd" * 100,
    ],
)
def test_what_is_no_measurement_is_left_out(page: str) -> None:
    assert parse_metrics(page) == {}


def test_what_is_said_after_the_value_is_not_taken_for_it() -> None:
    page = 'vllm:num_requests_running{model_name="a } b",job="c \\" d"} 5 1700000000 # {trace="e"} 0.5'
    assert parse_metrics(page) == {PodMetric.REQUESTS_RUNNING: 5.0}


def test_bounds_that_no_time_can_have_are_left_out() -> None:
    words = ("-Inf", "-1", "1e308", "NaN", "+Inf")
    page = "\n".join(f'e2e_request_latency_seconds_bucket{{le="{word}"}} 3' for word in words)
    assert parse_metrics(page) == {bucket_name(PodMetric.LATENCY_SECONDS, math.inf): 3}


def test_a_page_of_thousands_of_labels_and_bounds_makes_few_values() -> None:
    labels = "\n".join(f'num_requests_running{{model_name="m{n}"}} 1' for n in range(5000))
    buckets = "\n".join(f'e2e_request_latency_seconds_bucket{{le="{n}.5"}} 1' for n in range(MAX_BUCKETS + 1))
    last = 'e2e_request_latency_seconds_bucket{le="+Inf"} 1'
    assert parse_metrics(f"{labels}\n{buckets}\n{last}") == {PodMetric.REQUESTS_RUNNING: 5000}
