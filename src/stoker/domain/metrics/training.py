"""What training code says about itself: values of named metrics, each at a moment and most at a step."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

MOST_METRICS = 64
"""Metrics of one line or one report; what is beyond is left out of a line and refused in a report."""
LONGEST_NAME = 80
MOST_POINTS = 1_000_000
"""Points kept of one workload. Beyond that the oldest are dropped."""
HIGHEST_STEP = 2**53


class Canonical(StrEnum):
    """The metrics that have one name, whatever a framework calls them."""

    LOSS = "loss"
    SAMPLES_PER_SECOND = "samples_per_second"
    ACCURACY = "accuracy"
    TFLOPS = "tflops"


class Measured(Struct, frozen=True):
    """What was said at one moment, under canonical names; every value is finite."""

    at: int
    step: int | None
    metrics: Mapping[str, float]


class TrainingPoint(Struct, frozen=True):
    metric: str
    value: float
    at: int
    step: int | None
