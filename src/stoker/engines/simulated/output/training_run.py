"""A simulated training run: steps, a falling loss and a steady throughput."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.engines.simulated.scenario import LoadProfile, Scenario
from stoker.engines.simulated.seeded_random import hash_seed, hash_seeds, seeded_rng

MIN_REPORT_SECONDS = 10.0
MAX_REPORTS = 2000


class StepMetrics(Struct, frozen=True):
    """The report of one step, or arrays of many."""

    step: Any
    loss: Any
    grad_norm: Any
    learning_rate: Any
    seconds_per_step: Any
    tflops: Any
    tokens_per_second: Any
    epoch: Any


class TrainingRun:
    """Reports every `every` steps. Two runs of one scenario report the same."""

    def __init__(self, story: Scenario, gpus: int, peak_tflops: float) -> None:
        rolled = seeded_rng(story.program_seed, "training")
        large = story.profile is LoadProfile.PRETRAINING
        self.seed = story.seed
        self.gpus = max(1, gpus)
        self.run_seconds = story.run_seconds or 86_400.0
        self.step_seconds = rolled.uniform(2.0, 9.0) if large else rolled.uniform(0.4, 1.6)
        self.steps_per_report = max(
            1, round(max(MIN_REPORT_SECONDS, self.run_seconds / MAX_REPORTS) / self.step_seconds)
        )
        self.steps = max(self.steps_per_report, int(self.run_seconds / self.step_seconds))
        self.batch_size = rolled.choice((256, 512, 1024, 2048)) if large else rolled.choice((16, 32, 64, 128))
        self.sequence_length = 4096 if large else 2048
        self.tflops = peak_tflops * (rolled.uniform(0.32, 0.47) if large else rolled.uniform(0.12, 0.3))
        self.peak_learning_rate = rolled.uniform(1.5e-4, 4e-4) if large else rolled.uniform(1e-5, 5e-5)
        self._initial_loss = rolled.uniform(10.2, 11.4) if large else rolled.uniform(1.8, 3.2)
        self._final_loss = rolled.uniform(1.7, 2.3) if large else rolled.uniform(0.3, 1.1)
        self._loss_scale = max(2.0, self.steps * rolled.uniform(0.002, 0.01))
        self._loss_exponent = rolled.uniform(0.45, 0.6)

    @property
    def report_seconds(self) -> float:
        """The time between reports."""
        return self.steps_per_report * self.step_seconds

    def report(self, number: int) -> StepMetrics:
        """The report of this number, from 0."""
        step = (number + 1) * self.steps_per_report
        return self._metrics_at(step, (hash_seed(self.seed, step) >> 11) / 2**52 - 1.0)

    def report_columns(self, numbers: NDArray[np.int64]) -> StepMetrics:
        """Many reports at once, as arrays."""
        steps = (numbers + 1) * self.steps_per_report
        return self._metrics_at(steps, (hash_seeds(hash_seed(self.seed), steps) >> np.uint64(11)) / 2**52 - 1.0)

    def _metrics_at(self, step: Any, shake: Any) -> StepMetrics:
        falling = (1.0 + step / self._loss_scale) ** -self._loss_exponent
        pace = self.step_seconds * (1.0 + 0.03 * shake)
        return StepMetrics(
            step=step,
            loss=(self._final_loss + (self._initial_loss - self._final_loss) * falling) * (1.0 + 0.012 * shake),
            grad_norm=(0.3 + 2.5 * falling) * (1.0 + 0.2 * shake),
            learning_rate=self.peak_learning_rate / (1.0 + step / self.steps) ** 3,
            seconds_per_step=pace,
            tflops=self.tflops * (1.0 - 0.03 * shake),
            tokens_per_second=self.batch_size * self.sequence_length / pace / self.gpus,
            epoch=3.0 * step / self.steps,
        )
