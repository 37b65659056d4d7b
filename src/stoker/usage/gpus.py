"""When the GPUs of an hour were there, and when they were faulty."""

from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from stoker.domain.clock import HOUR_MS
from stoker.usage.facts import Hour, Integers, Spans
from stoker.usage.spans import Crowd, Stretch, length, merged, shared


class Gpus:
    """Most are there in one stretch and well: `from_at` and `to_at` say when. The few that are not are `odd`: for them
    `present` and `faulty` have the stretches."""

    def __init__(self, hour: Hour) -> None:
        end, count = hour.at + HOUR_MS, len(hour.models)
        present, faulty = hour.present.during(hour.at, end), hour.faulty.during(hour.at, end)
        pieces = np.bincount(present.gpu, minlength=count)
        self.there: NDArray[np.bool_] = pieces > 0
        self.odd: NDArray[np.bool_] = self.there & ((pieces > 1) | (np.bincount(faulty.gpu, minlength=count) > 0))
        self.from_at, self.to_at = np.zeros((2, count), np.int64)
        self.from_at[present.gpu], self.to_at[present.gpu] = present.from_at, present.to_at
        self.present = _stretches(present, self.odd)
        broken = _stretches(faulty, self.odd)
        self.faulty = {gpu: shared(stretches, self.present[gpu]) for gpu, stretches in broken.items()}

    @property
    def highest(self) -> int:
        """How many were there at once at the most."""
        plain = np.flatnonzero(self.there & ~self.odd)
        spans = Counter(zip(self.from_at[plain].tolist(), self.to_at[plain].tolist(), strict=True))
        spans.update(stretch for stretches in self.present.values() for stretch in stretches)
        return Crowd(spans.items()).highest

    def times(self) -> tuple[Integers, Integers]:
        """For how long each was there, and for how long of it faulty."""
        there, broken = self.to_at - self.from_at, np.zeros_like(self.to_at)
        for gpu, stretches in self.present.items():
            there[gpu], broken[gpu] = length(stretches), length(self.faulty.get(gpu, ()))
        return there, broken


def _stretches(spans: Spans, wanted: NDArray[np.bool_]) -> dict[int, list[Stretch]]:
    found: defaultdict[int, list[Stretch]] = defaultdict(list)
    mine = wanted[spans.gpu]
    for gpu, first, last in zip(
        *(each[mine].tolist() for each in (spans.gpu, spans.from_at, spans.to_at)), strict=True
    ):
        found[gpu].append((first, last))
    return {gpu: merged(stretches) for gpu, stretches in found.items()}
