"""Decodes packed samples to real values."""

import numpy as np

from stoker.domain.cluster.samples import GpuMetric
from stoker.telemetry.tsdb.codec import QUANTIZATIONS


def to_real(metric: GpuMetric, steps: np.ndarray) -> np.ndarray:
    """Steps in the unit of their metric; NaN where there is no reading."""
    scale = QUANTIZATIONS[metric]
    return np.where(steps == scale.missing, np.nan, steps / scale.steps_per_unit)
