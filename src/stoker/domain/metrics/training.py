"""Training metrics: named values with a time and usually a step."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

MAX_METRICS_PER_REPORT = 64
"""Maximum number of metrics per log line or report; further ones are ignored in a line and rejected in a report."""
MAX_METRIC_NAME_LENGTH = 80
MAX_POINTS_PER_WORKLOAD = 1_000_000
"""Maximum number of stored points per workload; the oldest are dropped first."""
MAX_STEP = 2**53


class CanonicalMetric(StrEnum):
    """Metrics with one canonical name for all frameworks."""

    LOSS = "loss"
    SAMPLES_PER_SECOND = "samples_per_second"
    ACCURACY = "accuracy"
    TFLOPS = "tflops"


class TrainingSample(Struct, frozen=True):
    """Values reported at one moment, by canonical name; all are finite."""

    at: int
    step: int | None
    metrics: Mapping[str, float]


class TrainingPoint(Struct, frozen=True):
    metric: str
    value: float
    at: int
    step: int | None
