"""What inference servers print: vLLM's names and NIM's, and pages that mean no good."""

import math

import pytest

from stoker.domain.pod_samples import PodMetric, bounds, bucket
from stoker.telemetry.inference import MOST_BOUNDS, parse

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
    found = parse(VLLM)
    assert found[PodMetric.REQUESTS_RUNNING] == 5
    assert found[PodMetric.REQUESTS_WAITING] == 7
    assert found[PodMetric.CACHE_USED] == 0.5
    assert (found[PodMetric.SUCCEEDED], found[PodMetric.FAILED]) == (42, 5)
    first = bounds(PodMetric.FIRST_TOKEN_SECONDS, found)
    assert {bound: found[name] for bound, name in first.items()} == {0.001: 1, 1.0: 8, math.inf: 9}
    assert found[PodMetric.LATENCY_SUM] == 94


def test_nim_is_understood_and_what_it_repeats_counts_once() -> None:
    assert parse(NIM) == {
        PodMetric.REQUESTS_RUNNING: 4,
        PodMetric.REQUESTS_MOST: 256,
        PodMetric.CACHE_USED: 0.5,
        PodMetric.SUCCEEDED: 11,
        PodMetric.FAILED: 1,
    }
    finished = 'request_finish_total{finished_reason="stop"} 3\nrequest_finish_total{finished_reason="error"} 2\n'
    assert parse(finished) == {PodMetric.SUCCEEDED: 3, PodMetric.FAILED: 2}


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
    assert parse(page) == {}


def test_what_is_said_after_the_value_is_not_taken_for_it() -> None:
    page = 'vllm:num_requests_running{model_name="a } b",job="c \\" d"} 5 1700000000 # {trace="e"} 0.5'
    assert parse(page) == {PodMetric.REQUESTS_RUNNING: 5.0}


def test_bounds_that_no_time_can_have_are_left_out() -> None:
    words = ("-Inf", "-1", "1e308", "NaN", "+Inf")
    page = "\n".join(f'e2e_request_latency_seconds_bucket{{le="{word}"}} 3' for word in words)
    assert parse(page) == {bucket(PodMetric.LATENCY_SECONDS, math.inf): 3}


def test_a_page_of_thousands_of_labels_and_bounds_makes_few_values() -> None:
    labels = "\n".join(f'num_requests_running{{model_name="m{n}"}} 1' for n in range(5000))
    buckets = "\n".join(f'e2e_request_latency_seconds_bucket{{le="{n}.5"}} 1' for n in range(MOST_BOUNDS + 1))
    last = 'e2e_request_latency_seconds_bucket{le="+Inf"} 1'
    assert parse(f"{labels}\n{buckets}\n{last}") == {PodMetric.REQUESTS_RUNNING: 5000}
