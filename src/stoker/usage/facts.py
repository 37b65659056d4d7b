"""What is known of one hour of a cluster before it is closed."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

LONGEST_REACH_MS = 600_000


class GpuSpan(Struct, frozen=True, gc=False):
    """A GPU from one moment to another; it is a row of the readings."""

    gpu: int
    from_at: int
    to_at: int


class Hold(Struct, frozen=True, gc=False):
    """A GPU, or a part of one, that a pod held. Up to `started_at` the pod was starting."""

    gpu: int
    uid: str
    pod: str
    gpu_milli: int
    from_at: int
    to_at: int
    started_at: int


class Measured(Struct, frozen=True, eq=False):
    """Readings [gpu, tick], ordered by time; a negative one is missing. A tick stands for
    no longer than its `reach`.

    Utilisation is in hundredths of a percent, memory in MiB; `memory_size` [gpu] is 0 where it is not known."""

    ats: NDArray[np.int64]
    reach: NDArray[np.int64]
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]
    memory_size: NDArray[np.int64]


class Hour(Struct, frozen=True, eq=False):
    """Everything that is known of one hour of a cluster. `models` has the model of each GPU; `idle_up_to` is in
    hundredths of a percent."""

    at: int
    models: Sequence[str]
    present: Sequence[GpuSpan]
    faulty: Sequence[GpuSpan]
    holds: Sequence[Hold]
    measured: Measured
    idle_up_to: int


def reaches(ats: NDArray[np.int64]) -> NDArray[np.int64]:
    """For how long a tick stands at most: twice the time since the one before it, as one tick may well be missing."""
    if len(ats) < 2:
        return np.full(len(ats), LONGEST_REACH_MS, np.int64)
    gaps = np.diff(ats)
    return np.minimum(2 * np.concatenate([gaps[:1], gaps]), LONGEST_REACH_MS)
