"""Samples under the names that Run:ai has for them. Every number is text here, and what does not apply is empty."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from stoker.api.csv_text import csv_response, wants_csv
from stoker.api.endpoint import Call
from stoker.api.families import STATUS, encode
from stoker.api.params import Params
from stoker.api.runai.filters import with_plus
from stoker.api.runai.translate import number_text
from stoker.api.times import instant
from stoker.domain.clock import rfc3339
from stoker.domain.series import Point
from stoker.services.consumption import Consumed, Measure
from stoker.services.pod_parts import percentiles

PARTIAL = 207
PERCENTILES = "_PERCENTILES"
DIGITS = 4
MEASURES: dict[str, Measure] = {
    "GPU_UTILIZATION": Measure.GPU_UTILIZATION,
    "GPU_MEMORY_USAGE_BYTES": Measure.GPU_MEMORY_USED,
    "GPU_MEMORY_REQUEST_BYTES": Measure.GPU_MEMORY_REQUESTED,
    "GPU_ALLOCATION": Measure.GPU_ALLOCATED,
    "CPU_REQUEST_CORES": Measure.CPU_REQUESTED,
    "CPU_LIMIT_CORES": Measure.CPU_REQUESTED,
    "CPU_MEMORY_REQUEST_BYTES": Measure.MEMORY_REQUESTED,
    "CPU_MEMORY_LIMIT_BYTES": Measure.MEMORY_REQUESTED,
    "CPU_USAGE_CORES": Measure.CPU_USED,
    "CPU_MEMORY_USAGE_BYTES": Measure.MEMORY_USED,
    "POD_COUNT": Measure.PODS,
    "RUNNING_POD_COUNT": Measure.RUNNING_PODS,
    "NIM_NUM_REQUESTS_RUNNING": Measure.REQUESTS_RUNNING,
    "NIM_NUM_REQUESTS_WAITING": Measure.REQUESTS_WAITING,
    "NIM_NUM_REQUEST_MAX": Measure.REQUESTS_MOST,
    "NIM_REQUEST_SUCCESS_TOTAL": Measure.REQUESTS_SUCCEEDED,
    "NIM_REQUEST_FAILURE_TOTAL": Measure.REQUESTS_FAILED,
    "NIM_GPU_CACHE_USAGE_PERC": Measure.CACHE_USED,
    "THROUGHPUT": Measure.THROUGHPUT,
    "LATENCY": Measure.LATENCY,
}
HISTOGRAMS: dict[str, Measure] = {
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS": Measure.FIRST_TOKENS,
    "NIM_E2E_REQUEST_LATENCY_SECONDS": Measure.LATENCIES,
    "NIM_TIME_TO_FIRST_TOKEN_SECONDS_PERCENTILES": Measure.FIRST_TOKENS,
    "NIM_E2E_REQUEST_LATENCY_SECONDS_PERCENTILES": Measure.LATENCIES,
}
PER_GPU: dict[str, Measure] = {
    "GPU_UTILIZATION_PER_GPU": Measure.GPU_UTILIZATION,
    "GPU_MEMORY_USAGE_BYTES_PER_GPU": Measure.GPU_MEMORY_USED,
}
KNOWN = MEASURES | HISTOGRAMS | PER_GPU
"""What every type that is measured here comes from; the others have no values."""


class MetricsSpan(Params, frozen=True, kw_only=True, rename="camel"):
    workload_id: Annotated[str, Meta(max_length=100)]
    start: Annotated[str, Meta(max_length=64, description="RFC 3339; UTC when it names no zone.")]
    end: Annotated[str, Meta(max_length=64, description="RFC 3339; UTC when it names no zone.")]
    number_of_samples: Annotated[int, Meta(ge=0, le=1000)] = 20


Asked = TypeVar("Asked", bound=MetricsSpan)


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


class Metrics(Struct, frozen=True):
    """`errors` names what could not be read; it is there only when something could not."""

    measurements: list[Measurement]
    histogram: list[Histogram] | None = None
    errors: list[MetricFailure] | UnsetType = UNSET


async def read_metrics(call: Call[Asked], asked: Sequence[str], pod: str = "") -> Metrics | Response:
    """The types that are asked for, of a workload or of one pod of it; CSV if that is wanted."""
    span = call.params
    types = tuple(dict.fromkeys(asked))
    measures = tuple(dict.fromkeys(KNOWN[each] for each in types if each in KNOWN))
    start, end = instant(with_plus(span.start), "start"), instant(with_plus(span.end), "end")
    found = await call.services.consumption.read(
        call.actor, span.workload_id, start, end, span.number_of_samples, measures, pod
    )
    failures = [
        MetricFailure(each, STATUS[error.code], error.message)
        for each in types
        if each in KNOWN and (error := found.failed.get(KNOWN[each])) is not None
    ]
    if len(failures) == len(types):
        raise next(iter(found.failed.values()))
    failed = {failure.type for failure in failures}
    answer = Metrics(
        [
            line
            for each in types
            if each not in HISTOGRAMS and each not in failed
            for line in _measurements(each, found)
        ],
        [_histogram(each, found) for each in types if each in HISTOGRAMS] or None,
        failures or UNSET,
    )
    if failures:
        return Response(encode(answer), PARTIAL, media_type="application/json")
    return _csv(answer) if wants_csv(call.request) else answer


def _measurements(name: str, found: Consumed) -> Iterator[Measurement]:
    """One line, or one for each GPU that there was."""
    gpus = found.gpus.get(PER_GPU[name], {}) if name in PER_GPU else {}
    for device, points in sorted(gpus.items()):
        yield Measurement(name, _values(name, points), {"gpu": str(device)})
    if not gpus:
        yield Measurement(name, _values(name, found.values.get(MEASURES[name], []) if name in MEASURES else []))


def _values(name: str, points: Sequence[Point]) -> list[MetricValue]:
    """There are no parts of a byte."""
    digits = 0 if "_BYTES" in name else DIGITS
    return [MetricValue(number_text(round(value, digits)), rfc3339(at)) for value, at in points]


def _histogram(name: str, found: Consumed) -> Histogram:
    """How many were not above each bound; or what half, nine tenths and nearly all of them were not above."""
    parts = found.histograms.get(HISTOGRAMS[name], [])
    if name.endswith(PERCENTILES):
        shown = [(percentiles(counts), at) for counts, at in parts]
    else:
        shown = [({_bound(bound): count for bound, count in counts.items()}, at) for counts, at in parts]
    return Histogram(name, [HistogramValue(rfc3339(at), _texts(data)) for data, at in shown if data])


def _bound(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else str(bound)


def _texts(data: Mapping[str, float]) -> dict[str, str]:
    return {word: number_text(round(value, DIGITS)) for word, value in data.items()}


def _csv(answer: Metrics) -> Response:
    """One line for each value; `label` says of which GPU, or which part of a histogram."""
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
