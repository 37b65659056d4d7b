"""Metrics under their Run:ai names. Numbers are strings, and values that do not apply are empty."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from stoker.api.compat.runai.filters import restore_plus
from stoker.api.compat.runai.workloads.mapping import format_number
from stoker.api.http.endpoint import Call
from stoker.api.http.error_bodies import HTTP_STATUS
from stoker.api.http.exports import csv_response
from stoker.api.http.families import encode_json
from stoker.api.http.negotiation import prefers_csv
from stoker.api.http.params import Params, parse_instant
from stoker.domain.clock import format_rfc3339
from stoker.domain.metrics.series import SeriesPoint
from stoker.services.metrics.pod_aggregation import percentiles
from stoker.services.metrics.workload_metrics import WorkloadMetric, WorkloadMetricValues

MULTI_STATUS = 207
PERCENTILES_SUFFIX = "_PERCENTILES"
DECIMALS = 4
MEASURE_BY_TYPE: dict[str, WorkloadMetric] = {
    "GPU_UTILIZATION": WorkloadMetric.GPU_UTILIZATION,
    "GPU_MEMORY_USAGE_BYTES": WorkloadMetric.GPU_MEMORY_USED,
    "GPU_MEMORY_REQUEST_BYTES": WorkloadMetric.GPU_MEMORY_REQUESTED,
    "GPU_ALLOCATION": WorkloadMetric.GPU_ALLOCATED,
    "CPU_REQUEST_CORES": WorkloadMetric.CPU_REQUESTED,
    "CPU_LIMIT_CORES": WorkloadMetric.CPU_REQUESTED,
    "CPU_MEMORY_REQUEST_BYTES": WorkloadMetric.MEMORY_REQUESTED,
    "CPU_MEMORY_LIMIT_BYTES": WorkloadMetric.MEMORY_REQUESTED,
    "CPU_USAGE_CORES": WorkloadMetric.CPU_USED,
    "CPU_MEMORY_USAGE_BYTES": WorkloadMetric.MEMORY_USED,
    "POD_COUNT": WorkloadMetric.PODS,
    "RUNNING_POD_COUNT": WorkloadMetric.RUNNING_PODS,
    "NIM_NUM_REQUESTS_RUNNING": WorkloadMetric.REQUESTS_RUNNING,
    "NIM_NUM_REQUESTS_WAITING": WorkloadMetric.REQUESTS_WAITING,
    "NIM_NUM_REQUEST_MAX": WorkloadMetric.MAX_REQUESTS,
    "NIM_REQUEST_SUCCESS_TOTAL": WorkloadMetric.REQUESTS_SUCCEEDED,
    "NIM_REQUEST_FAILURE_TOTAL": WorkloadMetric.REQUESTS_FAILED,
    "NIM_GPU_CACHE_USAGE_PERC": WorkloadMetric.CACHE_USED,
    "THROUGHPUT": WorkloadMetric.THROUGHPUT,
    "LATENCY": WorkloadMetric.LATENCY,
}
HISTOGRAM_BY_TYPE: dict[str, WorkloadMetric] = {
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS": WorkloadMetric.TIME_TO_FIRST_TOKEN,
    "NIM_E2E_REQUEST_LATENCY_SECONDS": WorkloadMetric.LATENCY_HISTOGRAM,
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS_PERCENTILES": WorkloadMetric.TIME_TO_FIRST_TOKEN,
    "NIM_E2E_REQUEST_LATENCY_SECONDS_PERCENTILES": WorkloadMetric.LATENCY_HISTOGRAM,
}
PER_GPU_MEASURE_BY_TYPE: dict[str, WorkloadMetric] = {
    "GPU_UTILIZATION_PER_GPU": WorkloadMetric.GPU_UTILIZATION,
    "GPU_MEMORY_USAGE_BYTES_PER_GPU": WorkloadMetric.GPU_MEMORY_USED,
}
SUPPORTED_TYPES = MEASURE_BY_TYPE | HISTOGRAM_BY_TYPE | PER_GPU_MEASURE_BY_TYPE
"""The source of each metric type; types without a source have no values."""


class MetricsRangeParams(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(max_length=100)]
    start: Annotated[str, Meta(max_length=64, description="RFC 3339; UTC when it names no zone.")]
    end: Annotated[str, Meta(max_length=64, description="RFC 3339; UTC when it names no zone.")]
    number_of_samples: Annotated[int, Meta(ge=0, le=1000)] = 20


MetricsParamsT = TypeVar("MetricsParamsT", bound=MetricsRangeParams)


class MetricValue(Struct, frozen=True):
    value: str
    timestamp: str


class Measurement(Struct, frozen=True):
    type: str
    values: list[MetricValue]
    labels: dict[str, str] | UnsetType = UNSET


class HistogramValue(Struct, frozen=True):
    timestamp: str
    data: dict[str, str]


class Histogram(Struct, frozen=True):
    type: str
    values: list[HistogramValue]


class MetricFailure(Struct, frozen=True):
    type: str
    code: int
    message: str


class RunaiMetrics(Struct, frozen=True):
    """`errors` lists the metrics that could not be read; it is absent without errors."""

    measurements: list[Measurement]
    histogram: list[Histogram] | None = None
    errors: list[MetricFailure] | UnsetType = UNSET


async def query_metrics(call: Call[MetricsParamsT], asked: Sequence[str], pod: str = "") -> RunaiMetrics | Response:
    """The requested metric types of a workload or pod, as JSON or CSV."""
    span = call.params
    types = tuple(dict.fromkeys(asked))
    measures = tuple(dict.fromkeys(SUPPORTED_TYPES[each] for each in types if each in SUPPORTED_TYPES))
    start, end = parse_instant(restore_plus(span.start), "start"), parse_instant(restore_plus(span.end), "end")
    found = await call.services.workload_metrics.read(
        call.actor, span.workload_id, start, end, span.number_of_samples, measures, pod
    )
    failures = [
        MetricFailure(each, HTTP_STATUS[error.code], error.message)
        for each in types
        if each in SUPPORTED_TYPES and (error := found.errors.get(SUPPORTED_TYPES[each])) is not None
    ]
    if len(failures) == len(types):
        raise next(iter(found.errors.values()))
    failed = {failure.type for failure in failures}
    answer = RunaiMetrics(
        [
            line
            for each in types
            if each not in HISTOGRAM_BY_TYPE and each not in failed
            for line in _to_measurements(each, found)
        ],
        [_to_histogram(each, found) for each in types if each in HISTOGRAM_BY_TYPE] or None,
        failures or UNSET,
    )
    if failures:
        return Response(encode_json(answer), MULTI_STATUS, media_type="application/json")
    return _to_csv(answer) if prefers_csv(call.request) else answer


def _to_measurements(name: str, found: WorkloadMetricValues) -> Iterator[Measurement]:
    """One series, or one for each GPU."""
    gpus = found.gpus.get(PER_GPU_MEASURE_BY_TYPE[name], {}) if name in PER_GPU_MEASURE_BY_TYPE else {}
    for device, points in sorted(gpus.items()):
        yield Measurement(name, _to_values(name, points), {"gpu": str(device)})
    if not gpus:
        yield Measurement(
            name, _to_values(name, found.values.get(MEASURE_BY_TYPE[name], []) if name in MEASURE_BY_TYPE else [])
        )


def _to_values(name: str, points: Sequence[SeriesPoint]) -> list[MetricValue]:
    """Bytes are integers."""
    digits = 0 if "_BYTES" in name else DECIMALS
    return [MetricValue(format_number(round(value, digits)), format_rfc3339(at)) for value, at in points]


def _to_histogram(name: str, found: WorkloadMetricValues) -> Histogram:
    """The cumulative counts of a histogram's buckets, or its p50, p90 and p99."""
    parts = found.histograms.get(HISTOGRAM_BY_TYPE[name], [])
    if name.endswith(PERCENTILES_SUFFIX):
        shown = [(percentiles(counts), at) for counts, at in parts]
    else:
        shown = [({_bucket_label(bound): count for bound, count in counts.items()}, at) for counts, at in parts]
    return Histogram(name, [HistogramValue(format_rfc3339(at), _to_texts(data)) for data, at in shown if data])


def _bucket_label(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else str(bound)


def _to_texts(data: Mapping[str, float]) -> dict[str, str]:
    return {word: format_number(round(value, DECIMALS)) for word, value in data.items()}


def _to_csv(answer: RunaiMetrics) -> Response:
    """One line for each value; `label` names the GPU or the bucket of a histogram."""
    rows = [
        (each.type, point.timestamp, point.value, ";".join((each.labels or {}).values()))
        for each in answer.measurements
        for point in each.values
    ]
    rows += [
        (each.type, point.timestamp, value, word)
        for each in answer.histogram or []
        for point in each.values
        for word, value in point.data.items()
    ]
    return csv_response(("metricType", "timestamp", "value", "label"), rows)
