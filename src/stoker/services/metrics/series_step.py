"""The default step of GPU series, and the limit of values in one answer.

Without a requested step a series has up to 120 points, and fewer if a workload has many GPUs.
"""

from stoker.domain.cluster.samples import GpuMetric
from stoker.domain.errors import bad_request
from stoker.services.metrics.gpu_series import MAX_POINTS_IN_MEMORY, WorkloadGpuRange

MAX_DEFAULT_POINTS, MIN_DEFAULT_POINTS = 120, 24
MIN_STEP_SECONDS = 15
MAX_VALUES = 10 * MAX_POINTS_IN_MEMORY


def default_step_seconds(start: int, end: int, points: int = MAX_DEFAULT_POINTS) -> int:
    """The step for this number of points, a multiple of 15 seconds."""
    return max(1, -((start - end) // (points * MIN_STEP_SECONDS * 1000))) * MIN_STEP_SECONDS


def step_seconds_for_gpus(start: int, end: int, gpu_count: int) -> int:
    """The step with which all metrics of this number of GPUs fit into memory."""
    points = max(MIN_DEFAULT_POINTS, MAX_POINTS_IN_MEMORY // (gpu_count * len(GpuMetric)))
    return default_step_seconds(start, end, points)


def check_value_count(series: WorkloadGpuRange) -> None:
    """Reject an answer with more values than the limit."""
    values = series.gpu_count * series.max_points * len(GpuMetric)
    if values > MAX_VALUES:
        raise bad_request(
            "step",
            f"{series.gpu_count} GPUs of {series.max_points} points each are {values} values, and {MAX_VALUES} are "
            "the most. Use a longer step or a shorter range.",
        )
