"""Parses the metric pages of vLLM and NIM into pod metrics.

Only known names and valid values are taken, so the number of metrics per page is bounded. Series that differ only in
labels (models, engines) are summed; cache usage is averaged.
"""

import math
import re
from collections import defaultdict

from stoker.domain.metrics.pod_samples import HISTOGRAM_METRICS, PodMetric, bucket_name, bucket_names_by_bound

MAX_BUCKETS = 64
"""A histogram with more buckets is left out."""
MAX_VALUE = 1e15
VLLM_PREFIX = "vllm:"
FINISH_METRIC = "request_finish_total"
SUCCESS_REASONS = frozenset({"stop", "length"})
"""Finish reasons of successful requests."""

GAUGES = {
    "num_requests_running": PodMetric.REQUESTS_RUNNING,
    "num_requests_waiting": PodMetric.REQUESTS_WAITING,
    "num_request_max": PodMetric.MAX_REQUESTS,
    "gpu_cache_usage_perc": PodMetric.KV_CACHE_USAGE,
    "kv_cache_usage_perc": PodMetric.KV_CACHE_USAGE,
}
COUNTERS = {
    "request_success_total": PodMetric.REQUESTS_SUCCEEDED,
    "request_failure_total": PodMetric.REQUESTS_FAILED,
    "e2e_request_latency_seconds_sum": PodMetric.LATENCY_SUM,
}
HISTOGRAM_BUCKETS = {
    "time_to_first_token_seconds_bucket": PodMetric.TIME_TO_FIRST_TOKEN_SECONDS,
    "e2e_request_latency_seconds_bucket": PodMetric.LATENCY_SECONDS,
}
METRIC_NAMES = frozenset({FINISH_METRIC, *GAUGES, *COUNTERS, *HISTOGRAM_BUCKETS})

_SAMPLE_PATTERN = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?\s+(\S+)')
"""An exemplar after the value is ignored."""
_LE_PATTERN = re.compile(r'\ble="([^"]+)"')
_REASON_PATTERN = re.compile(r'\bfinished_reason="([^"]+)"')


class _ParsedPage:
    """The values of the names with one prefix."""

    def __init__(self) -> None:
        self.values: dict[str, float] = defaultdict(float)
        self._cache_series = 0
        self._finished: dict[PodMetric, float] = defaultdict(float)

    def add(self, name: str, labels: str, value: float) -> None:
        reason = _REASON_PATTERN.search(labels)
        ended = (
            PodMetric.REQUESTS_SUCCEEDED
            if reason is None or reason[1] in SUCCESS_REASONS
            else PodMetric.REQUESTS_FAILED
        )
        if name == FINISH_METRIC:
            self._finished[ended] += value
        elif name in HISTOGRAM_BUCKETS:
            upper = _parse_float(bound[1]) if (bound := _LE_PATTERN.search(labels)) else math.nan
            if 0 <= upper <= MAX_VALUE or upper == math.inf:
                self.values[bucket_name(HISTOGRAM_BUCKETS[name], upper)] += value
        elif name in COUNTERS:
            self.values[ended if reason else COUNTERS[name]] += value
        else:
            self.values[GAUGES[name]] += value
            self._cache_series += GAUGES[name] is PodMetric.KV_CACHE_USAGE

    def result(self) -> dict[str, float]:
        found = dict(self.values)
        if self._cache_series:
            found[PodMetric.KV_CACHE_USAGE] /= self._cache_series
        if not found.keys() & {PodMetric.REQUESTS_SUCCEEDED, PodMetric.REQUESTS_FAILED}:
            found |= self._finished
        for histogram in HISTOGRAM_METRICS:
            known = bucket_names_by_bound(histogram, found)
            if len(known) > MAX_BUCKETS or math.inf not in known:
                for name in known.values():
                    del found[name]
        return found


def parse_metrics(text: str) -> dict[str, float]:
    """The values of a page in the Prometheus text format. What NIM and its embedded vLLM both report counts once."""
    plain, vllm = _ParsedPage(), _ParsedPage()
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        page = vllm if name.startswith(VLLM_PREFIX) else plain
        name = name.removeprefix(VLLM_PREFIX)
        if name in METRIC_NAMES and (found := _SAMPLE_PATTERN.match(line)):
            value = _parse_float(found[3])
            if 0 <= value <= MAX_VALUE:
                page.add(name, found[2] or "", value)
    return {**vllm.result(), **plain.result()}


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
