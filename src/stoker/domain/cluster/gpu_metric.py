"""The metrics of a GPU, apart from the samples, so that a client does not import numpy."""

from enum import StrEnum


class GpuMetric(StrEnum):
    """Metrics of a GPU: a fraction, bytes, watts, degrees Celsius."""

    UTILIZATION = "utilization"
    MEMORY_USED = "memory_used"
    POWER = "power"
    TEMPERATURE = "temperature"
