"""The log of a simulated pod. Lines are not stored: each is computed from the pod's scenario when it is read.

A pod prints some lines at its start, then one per interval, and some at its end. The position of a line is its number.
As in a rotated log, only the last lines can be read.
"""

import math
from datetime import UTC, datetime

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.cluster.engine_access import LogLine
from stoker.engines.simulated.fleet.gpu_models import A100, GpuModel
from stoker.engines.simulated.output.log_templates import exit_lines, report_line, startup_lines
from stoker.engines.simulated.output.training_run import TrainingRun
from stoker.engines.simulated.pods.pod import SimulatedPod
from stoker.engines.simulated.scenario import Framework
from stoker.engines.simulated.seeded_random import hash_seed

MAX_READABLE_LINES = 5_000
SERVICE_LINE_SECONDS = 60.0
BATCH_LINE_SECONDS = 15.0
STARTUP_LINE_SECONDS = 0.4
"""The time between two lines at the start."""


class LogSchedule(Struct, frozen=True):
    """When a pod prints, in simulated seconds from its start: `first` is the first line after the start lines, and
    there are none after `quiet`."""

    startup_lines: list[str]
    first_report_seconds: float
    interval_seconds: float
    stop_seconds: float

    def lines_by(self, elapsed: float) -> tuple[int, int]:
        """How many start lines and how many later lines were printed by then."""
        if elapsed < 0:
            return 0, 0
        begun = min(len(self.startup_lines), 1 + math.floor(elapsed / STARTUP_LINE_SECONDS))
        working = min(elapsed, self.stop_seconds)
        after = (
            0
            if working < self.first_report_seconds
            else 1 + math.floor((working - self.first_report_seconds) / self.interval_seconds)
        )
        return begun, after if math.isfinite(self.interval_seconds) else 0

    def next_report_seconds(self, after: int) -> float | None:
        """When the next line is printed, after this many later lines."""
        if not math.isfinite(self.interval_seconds):
            return None
        seconds = self.first_report_seconds + after * self.interval_seconds
        return seconds if seconds <= self.stop_seconds else None


class SimulatedPodLog:
    def __init__(self, pod: SimulatedPod, model: GpuModel = A100) -> None:
        self._pod = pod
        self.model = model
        self.training = TrainingRun(pod.scenario, pod.attempt.gpus * pod.attempt.replicas, model.tflops)
        lines = startup_lines(pod, self.training, model)
        first = max(pod.load.warm, len(lines) * STARTUP_LINE_SECONDS)
        self._schedule = LogSchedule(lines, first, self._report_interval(), pod.load.idle_after)

    def line_count(self, now: int) -> int:
        """How many lines it has printed."""
        begun, after, last, _ = self._lines_by(now)
        return begun + after + len(last)

    def report_count(self, now: int) -> int:
        """How many of them are neither start lines nor last lines."""
        return self._lines_by(now)[1]

    def reported_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The times of the reports with these numbers, from 0."""
        seconds = self._schedule.first_report_seconds + numbers * self._schedule.interval_seconds
        return self._pod.plan.begins_at + np.rint(seconds * 1000 / self._pod.speed).astype(np.int64)

    def read(self, position: int, limit: int, now: int) -> list[LogLine]:
        """Up to `limit` lines from a position on that were printed by now."""
        begun, after, last, until = self._lines_by(now)
        total = begun + after + len(last)
        start = max(position, total - MAX_READABLE_LINES)
        return [self._line(number, begun, after, last, until) for number in range(start, min(total, start + limit))]

    def next_at(self, now: int) -> int | None:
        """When the next line is printed, if nothing happens to the pod."""
        pod = self._pod
        end = pod.termination()
        if end is not None and end.at <= now:
            return None
        elapsed = pod.elapsed_seconds(now)
        begun, after = self._schedule.lines_by(elapsed)
        if begun < len(self._schedule.startup_lines):
            seconds = len(self._schedule.startup_lines) * STARTUP_LINE_SECONDS
        else:
            seconds = self._schedule.next_report_seconds(after)
            if seconds is None:
                return end.at if end is not None else None
        at = max(now + 1, self._timestamp(seconds))
        return min(at, end.at) if end is not None else at

    def _lines_by(self, now: int) -> tuple[int, int, list[str], int]:
        """The number of start lines, the number of later lines including the last ones of an ended pod, and the time
        until which it printed."""
        pod, end = self._pod, self._pod.termination()
        if not pod.has_started(now):
            return 0, 0, [], now
        over = end is not None and end.at <= now
        until = end.at if over and end else now
        begun, after = self._schedule.lines_by(pod.elapsed_seconds(until))
        return begun, after, exit_lines(pod, end) if over and end else [], until

    def _line(self, number: int, begun: int, after: int, last: list[str], until: int) -> LogLine:
        if number < begun:
            return LogLine(
                self._timestamp(number * STARTUP_LINE_SECONDS), self._schedule.startup_lines[number], number + 1
            )
        if number < begun + after:
            place = number - begun
            at = self._timestamp(self._schedule.first_report_seconds + place * self._schedule.interval_seconds)
            return LogLine(at, report_line(self._pod, self.training, self.model, place, clock_time(at)), number + 1)
        return LogLine(until, last[number - begun - after], number + 1)

    def _timestamp(self, seconds: float) -> int:
        return self._pod.plan.begins_at + round(seconds * 1000 / self._pod.speed)

    def _report_interval(self) -> float:
        pod = self._pod
        match pod.scenario.framework:
            case Framework.MEGATRON:
                reports = pod.plan.rank == pod.attempt.replicas - 1
            case Framework.TORCHTITAN | Framework.HUGGINGFACE:
                reports = pod.plan.rank == 0
            case Framework.VLLM | Framework.JUPYTER:
                return SERVICE_LINE_SECONDS * (1 + hash_seed(pod.scenario.seed, pod.plan.rank) % 60 / 100)
            case Framework.PLAIN:
                return max(BATCH_LINE_SECONDS, (pod.scenario.run_seconds or 0.0) / 1000)
        return self.training.report_seconds if reports else math.inf


def clock_time(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
