"""What was packed, as it was measured."""

import numpy as np

from stoker.domain.readings import Metric
from stoker.telemetry.chunks import SCALES


def to_real(metric: Metric, steps: np.ndarray) -> np.ndarray:
    """Steps in the unit of their metric; NaN where there is no reading."""
    scale = SCALES[metric]
    return np.where(steps == scale.missing, np.nan, steps / scale.steps)
