"""What an inference server prints about itself, as vLLM and NIM name it, made into a few values with one name each.

Nothing but these names is looked at, and what is no measurement is left out, so no page makes more than a few values.
Series that differ only in their labels (models, engines) are added up; the use of caches is averaged.
"""

import math
import re
from collections import defaultdict

from stoker.domain.pod_samples import HISTOGRAMS, PodMetric, bounds, bucket

MOST_BOUNDS = 64
"""A histogram with more of them is left out."""
HIGHEST = 1e15
VLLM = "vllm:"
FINISHED = "request_finish_total"
SUCCESSFUL = frozenset({"stop", "length"})
"""Why a request ended that did what it was asked for."""

GAUGES = {
    "num_requests_running": PodMetric.REQUESTS_RUNNING,
    "num_requests_waiting": PodMetric.REQUESTS_WAITING,
    "num_request_max": PodMetric.REQUESTS_MOST,
    "gpu_cache_usage_perc": PodMetric.CACHE_USED,
    "kv_cache_usage_perc": PodMetric.CACHE_USED,
}
COUNTS = {
    "request_success_total": PodMetric.SUCCEEDED,
    "request_failure_total": PodMetric.FAILED,
    "e2e_request_latency_seconds_sum": PodMetric.LATENCY_SUM,
}
BUCKETS = {
    "time_to_first_token_seconds_bucket": PodMetric.FIRST_TOKEN_SECONDS,
    "e2e_request_latency_seconds_bucket": PodMetric.LATENCY_SECONDS,
}
NAMES = frozenset({FINISHED, *GAUGES, *COUNTS, *BUCKETS})

_line = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:[^"}]|"(?:[^"\\]|\\.)*+")*+)\})?\s+(\S+)')
"""What follows the value, an exemplar with labels of its own, is not looked at."""
_bound = re.compile(r'\ble="([^"]+)"')
_reason = re.compile(r'\bfinished_reason="([^"]+)"')


class _Page:
    """What was printed under names of one kind."""

    def __init__(self) -> None:
        self.values: dict[str, float] = defaultdict(float)
        self._caches = 0
        self._finished: dict[PodMetric, float] = defaultdict(float)

    def add(self, name: str, labels: str, value: float) -> None:
        reason = _reason.search(labels)
        ended = PodMetric.SUCCEEDED if reason is None or reason[1] in SUCCESSFUL else PodMetric.FAILED
        if name == FINISHED:
            self._finished[ended] += value
        elif name in BUCKETS:
            upper = _number(bound[1]) if (bound := _bound.search(labels)) else math.nan
            if 0 <= upper <= HIGHEST or upper == math.inf:
                self.values[bucket(BUCKETS[name], upper)] += value
        elif name in COUNTS:
            self.values[ended if reason else COUNTS[name]] += value
        else:
            self.values[GAUGES[name]] += value
            self._caches += GAUGES[name] is PodMetric.CACHE_USED

    def result(self) -> dict[str, float]:
        found = dict(self.values)
        if self._caches:
            found[PodMetric.CACHE_USED] /= self._caches
        if not found.keys() & {PodMetric.SUCCEEDED, PodMetric.FAILED}:
            found |= self._finished
        for histogram in HISTOGRAMS:
            known = bounds(histogram, found)
            if len(known) > MOST_BOUNDS or math.inf not in known:
                for name in known.values():
                    del found[name]
        return found


def parse(text: str) -> dict[str, float]:
    """The values on a page in the text format of Prometheus. What NIM and the vLLM in it both print counts once."""
    plain, vllm = _Page(), _Page()
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        page = vllm if name.startswith(VLLM) else plain
        name = name.removeprefix(VLLM)
        if name in NAMES and (found := _line.match(line)):
            value = _number(found[3])
            if 0 <= value <= HIGHEST:
                page.add(name, found[2] or "", value)
    return {**vllm.result(), **plain.result()}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
