"""Which samples show an idle GPU."""

import numpy as np
from numpy.typing import NDArray

from stoker.domain.workload.idle import UTILIZATION_SCALE, quantize_threshold


def idle_mask(utilization: NDArray[np.floating], threshold_percent: float) -> NDArray[np.bool_]:
    """True where a utilization, a fraction of one, is not above the threshold; a missing one, NaN, is not idle.
    `domain.workload.idle.is_idle` is the same for one value."""
    return np.rint(utilization * UTILIZATION_SCALE) <= quantize_threshold(threshold_percent)
