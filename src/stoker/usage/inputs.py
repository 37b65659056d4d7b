"""What is known of one hour of a cluster before it is closed, in columns: one place in all of them is one thing."""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

LONGEST_REACH_MS = 600_000

Integers = NDArray[np.int64]


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


class Spans(Struct, frozen=True, eq=False):
    """Many spans of GPUs, in any order."""

    gpu: Integers
    from_at: Integers
    to_at: Integers

    def during(self, begin: int, end: int) -> "Spans":
        """What of them lies in a window."""
        from_at, to_at = np.maximum(self.from_at, begin), np.minimum(self.to_at, end)
        inside = from_at < to_at
        return Spans(self.gpu[inside], from_at[inside], to_at[inside])


class Holds(Struct, frozen=True, eq=False):
    """Many holds, by owner, pod, GPU and time. `owner` holds places in `owners`; `pod` only tells pods apart."""

    owners: Sequence[str]
    owner: Integers
    pod: Integers
    gpu: Integers
    gpu_milli: Integers
    from_at: Integers
    to_at: Integers
    started_at: Integers

    def __len__(self) -> int:
        return len(self.owner)

    def taken(self, places: NDArray[np.bool_]) -> "Holds":
        """Only some of them, and only their owners."""
        there, owner = np.unique(self.owner[places], return_inverse=True)
        return Holds(
            [self.owners[place] for place in there.tolist()],
            owner,
            self.pod[places],
            self.gpu[places],
            self.gpu_milli[places],
            self.from_at[places],
            self.to_at[places],
            self.started_at[places],
        )


class Measured(Struct, frozen=True, eq=False):
    """Readings [gpu, tick], ordered by time; a negative one is missing. A tick stands for
    no longer than its `reach`.

    Utilisation is in hundredths of a percent, memory in MiB; `memory_size` [gpu] is 0 where it is not known."""

    ats: Integers
    reach: Integers
    utilization: NDArray[np.int16]
    memory: NDArray[np.int32]
    memory_size: Integers


class Hour(Struct, frozen=True, eq=False):
    """Everything that is known of one hour of a cluster. `models` has the model of each GPU; `idle_up_to` is in
    hundredths of a percent."""

    at: int
    models: Sequence[str]
    present: Spans
    faulty: Spans
    holds: Holds
    measured: Measured
    idle_up_to: int


def spans_of(spans: Iterable[GpuSpan]) -> Spans:
    rows = [(span.gpu, span.from_at, span.to_at) for span in spans]
    return Spans(*np.array(rows, np.int64).reshape(-1, 3).T)


def holds_of(holds: Iterable[Hold]) -> Holds:
    ordered = sorted(holds, key=lambda hold: (hold.uid, hold.pod, hold.gpu, hold.from_at))
    owners = list(dict.fromkeys(hold.uid for hold in ordered))
    owner = {uid: place for place, uid in enumerate(owners)}
    pod = {name: place for place, name in enumerate(dict.fromkeys(hold.pod for hold in ordered))}
    rows = [
        (owner[hold.uid], pod[hold.pod], hold.gpu, hold.gpu_milli, hold.from_at, hold.to_at, hold.started_at)
        for hold in ordered
    ]
    return Holds(owners, *np.array(rows, np.int64).reshape(-1, 7).T)


def reaches(ats: Integers) -> Integers:
    """For how long a tick stands at most: twice the time since the one before it, as one tick may well be missing."""
    if len(ats) < 2:
        return np.full(len(ats), LONGEST_REACH_MS, np.int64)
    gaps = np.diff(ats)
    return np.minimum(2 * np.concatenate([gaps[:1], gaps]), LONGEST_REACH_MS)
