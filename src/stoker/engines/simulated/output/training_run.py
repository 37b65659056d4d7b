"""A training run as its own code would report it: steps, a loss that falls, throughput that holds."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.engines.simulated.dice import dice, mixed, mixed_each
from stoker.engines.simulated.story import Doing, Story

LINE_SECONDS = 10.0
MOST_LINES = 2000


class Point(Struct, frozen=True):
    """What is reported at one step: numbers, or columns of them."""

    step: Any
    loss: Any
    grad_norm: Any
    learning_rate: Any
    seconds_per_step: Any
    tflops: Any
    tokens_per_second: Any
    epoch: Any


class Training:
    """Reports every `every` steps. Two runs of one story report the same."""

    def __init__(self, story: Story, gpus: int, peak_tflops: float) -> None:
        rolled = dice(story.work, "training")
        large = story.doing is Doing.PRETRAINING
        self.key = story.key
        self.gpus = max(1, gpus)
        self.run_seconds = story.run_seconds or 86_400.0
        self.step_seconds = rolled.uniform(2.0, 9.0) if large else rolled.uniform(0.4, 1.6)
        self.every = max(1, round(max(LINE_SECONDS, self.run_seconds / MOST_LINES) / self.step_seconds))
        self.steps = max(self.every, int(self.run_seconds / self.step_seconds))
        self.batch = rolled.choice((256, 512, 1024, 2048)) if large else rolled.choice((16, 32, 64, 128))
        self.sequence = 4096 if large else 2048
        self.tflops = peak_tflops * (rolled.uniform(0.32, 0.47) if large else rolled.uniform(0.12, 0.3))
        self.top_rate = rolled.uniform(1.5e-4, 4e-4) if large else rolled.uniform(1e-5, 5e-5)
        self._first = rolled.uniform(10.2, 11.4) if large else rolled.uniform(1.8, 3.2)
        self._last = rolled.uniform(1.7, 2.3) if large else rolled.uniform(0.3, 1.1)
        self._scale = max(2.0, self.steps * rolled.uniform(0.002, 0.01))
        self._bend = rolled.uniform(0.45, 0.6)

    @property
    def line_seconds(self) -> float:
        """How often it reports."""
        return self.every * self.step_seconds

    def point(self, number: int) -> Point:
        """The report of this number, from 0."""
        step = (number + 1) * self.every
        return self._curve(step, (mixed(self.key, step) >> 11) / 2**52 - 1.0)

    def points(self, numbers: NDArray[np.int64]) -> Point:
        """The same of many reports: a column for each figure."""
        steps = (numbers + 1) * self.every
        return self._curve(steps, (mixed_each(mixed(self.key), steps) >> np.uint64(11)) / 2**52 - 1.0)

    def _curve(self, step: Any, shake: Any) -> Point:
        falling = (1.0 + step / self._scale) ** -self._bend
        pace = self.step_seconds * (1.0 + 0.03 * shake)
        return Point(
            step=step,
            loss=(self._last + (self._first - self._last) * falling) * (1.0 + 0.012 * shake),
            grad_norm=(0.3 + 2.5 * falling) * (1.0 + 0.2 * shake),
            learning_rate=self.top_rate / (1.0 + step / self.steps) ** 3,
            seconds_per_step=pace,
            tflops=self.tflops * (1.0 - 0.03 * shake),
            tokens_per_second=self.batch * self.sequence / pace / self.gpus,
            epoch=3.0 * step / self.steps,
        )
