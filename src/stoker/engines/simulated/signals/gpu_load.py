"""The GPU load of pods over time.

All loads have one form: warm-up, then cycles of work and rest; some follow the time of day, and some end in unnoticed
idleness. Only the parameters differ, so sampling a hundred thousand GPUs takes a handful of array operations.
"""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from stoker.engines.simulated.scenario import LoadProfile, Scenario
from stoker.engines.simulated.seeded_random import seeded_rng

DAY_SECONDS = 86_400.0
PEAK_HOUR = 15.0
NEVER = 1e12
Floats = NDArray[np.float64]


class LoadParameters(Struct, frozen=True, kw_only=True):
    """`level` at work and `floor` at rest are fractions of one; `duty` is the share of each `period` (seconds) that is
    work. `curve` is the share that follows the time of day. `intensity` is the power drawn at full use."""

    warm: float = 0.0
    level: float = 0.0
    floor: float = 0.0
    period: float = 60.0
    duty: float = 0.0
    phase: float = 0.0
    curve: float = 0.0
    idle_after: float = NEVER
    memory: float = 0.0
    intensity: float = 0.0
    network: float = 0.0
    cpu: float = 0.0


def load_parameters(story: Scenario) -> LoadParameters:
    """The GPU load of a scenario."""
    rolled = seeded_rng(story.program_seed, "load")
    between = rolled.uniform
    phase = between(0.0, 3600.0)
    match story.profile:
        case LoadProfile.PRETRAINING:  # rests while it saves checkpoints
            every = between(1200, 3000)
            return LoadParameters(
                warm=between(60, 180),
                level=between(0.86, 0.99),
                floor=0.04,
                period=every,
                duty=1 - between(30, 90) / every,
                phase=phase,
                memory=between(0.78, 0.94),
                intensity=between(0.86, 0.98),
                network=between(0.25, 0.6),
                cpu=between(0.2, 0.45),
            )
        case LoadProfile.FINETUNING:  # waits for data now and then, and evaluates
            return LoadParameters(
                warm=between(20, 90),
                level=between(0.62, 0.94),
                floor=0.12,
                period=between(240, 900),
                duty=between(0.82, 0.96),
                phase=phase,
                idle_after=between(0.5, 6.0) * 3600 if rolled.random() < 0.06 else NEVER,
                memory=between(0.4, 0.9),
                intensity=between(0.7, 0.92),
                network=between(0.05, 0.2),
                cpu=between(0.3, 0.6),
            )
        case LoadProfile.BATCH:
            return LoadParameters(
                warm=between(5, 40),
                level=between(0.35, 0.85),
                floor=0.05,
                period=between(60, 400),
                duty=between(0.4, 0.9),
                phase=phase,
                memory=between(0.1, 0.6),
                intensity=between(0.5, 0.8),
                network=0.03,
                cpu=between(0.5, 0.95),
            )
        case LoadProfile.INFERENCE:  # memory is allocated at once, load comes with the users
            return LoadParameters(
                warm=between(40, 120),
                level=between(0.55, 0.92),
                floor=0.02,
                period=between(20, 60),
                duty=0.97,
                phase=phase,
                curve=between(0.45, 0.8),
                memory=between(0.86, 0.93),
                intensity=between(0.55, 0.75),
                network=0.02,
                cpu=between(0.15, 0.35),
            )
        case LoadProfile.NOTEBOOK:  # mostly idle while the user thinks
            return LoadParameters(
                warm=10.0,
                level=between(0.3, 0.9),
                period=between(1800, 7200),
                duty=between(0.03, 0.15),
                phase=phase,
                curve=0.7,
                memory=between(0.03, 0.35),
                intensity=between(0.4, 0.8),
                cpu=between(0.02, 0.2),
            )
        case LoadProfile.IDLE:
            return LoadParameters(memory=between(0.0, 0.1), cpu=0.01)


class LoadMatrix:
    """The parameters of many pods as arrays."""

    def __init__(self, loads: Sequence[LoadParameters]) -> None:
        table = np.array([structs.astuple(load) for load in loads], np.float64).reshape(
            -1, len(LoadParameters.__struct_fields__)
        )
        self._table = np.ascontiguousarray(table.T)

    def column(self, name: str) -> Floats:
        return self._table[LoadParameters.__struct_fields__.index(name)]

    def utilization(self, elapsed: Floats, seconds: Floats) -> tuple[Floats, Floats]:
        """The utilization of each pod, and its mean over the current cycle. `elapsed` has a row for each time and a
        column for each pod; `seconds` is the time of day of each row."""
        begun = (elapsed > self.column("warm")) & (elapsed < self.column("idle_after"))
        period, duty = self.column("period"), self.column("duty")
        works = np.mod(elapsed + self.column("phase"), period) < duty * period
        daily = 1.0 - self.column("curve") * _off_peak_fraction(seconds)[:, np.newaxis]
        level, floor = self.column("level"), self.column("floor")
        present = np.where(begun, np.where(works, level, floor) * daily, 0.0)
        usual = np.where(begun, (floor + (level - floor) * duty) * daily, 0.0)
        return present, usual

    def memory_fraction(self, elapsed: Floats) -> Floats:
        """The share of GPU memory that each pod uses; it grows during the warm-up."""
        return self.column("memory") * np.clip(elapsed / np.maximum(self.column("warm"), 1.0), 0.02, 1.0)


def _off_peak_fraction(seconds: Floats) -> Floats:
    """0 at the busiest hour, 1 twelve hours later."""
    turn = (seconds / 3600.0 - PEAK_HOUR) * (2 * math.pi / 24)
    return 0.5 - 0.5 * np.cos(turn)
