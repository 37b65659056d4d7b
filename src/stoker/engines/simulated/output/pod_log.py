"""What a simulated pod prints. No line is kept: each is computed from the pod's story when somebody reads it.

A pod prints some lines when it begins, then one every so often, and some when it ends. The position of a line is its
number. As with a real log that is rotated, only the last ones can still be read.
"""

import math
from datetime import UTC, datetime

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stoker.domain.reach import LogLine
from stoker.engines.simulated.devices import A100, GpuModel
from stoker.engines.simulated.dice import mixed
from stoker.engines.simulated.phrases import beginning, ending, report
from stoker.engines.simulated.pods import Pod
from stoker.engines.simulated.story import Framework
from stoker.engines.simulated.training import Training

KEPT_LINES = 5_000
SERVICE_SECONDS = 60.0
BATCH_SECONDS = 15.0
BEGINNING_SECONDS = 0.4
"""Between two lines of the beginning."""


class Outline(Struct, frozen=True):
    """When a pod prints, in simulated seconds from its beginning: `first` is the first line after the beginning, and
    after `quiet` there are no more."""

    beginning: list[str]
    first: float
    every: float
    quiet: float

    def said_by(self, elapsed: float) -> tuple[int, int]:
        """How many lines of the beginning, and how many after it, were printed by then."""
        if elapsed < 0:
            return 0, 0
        begun = min(len(self.beginning), 1 + math.floor(elapsed / BEGINNING_SECONDS))
        working = min(elapsed, self.quiet)
        after = 0 if working < self.first else 1 + math.floor((working - self.first) / self.every)
        return begun, after if math.isfinite(self.every) else 0

    def next_after(self, after: int) -> float | None:
        """When the next comes, if so many came after the beginning."""
        if not math.isfinite(self.every):
            return None
        seconds = self.first + after * self.every
        return seconds if seconds <= self.quiet else None


class PodLog:
    def __init__(self, pod: Pod, model: GpuModel = A100) -> None:
        self._pod = pod
        self.model = model
        self.training = Training(pod.story, pod.attempt.gpus * pod.attempt.replicas, model.tflops)
        lines = beginning(pod, self.training, model)
        first = max(pod.load.warm, len(lines) * BEGINNING_SECONDS)
        self._outline = Outline(lines, first, self._every(), pod.load.idle_after)

    def length(self, now: int) -> int:
        """How many lines it has printed."""
        begun, after, last, _ = self._said_by(now)
        return begun + after + len(last)

    def reports(self, now: int) -> int:
        """How many of them came after its beginning, and are not its last words."""
        return self._said_by(now)[1]

    def reported_at(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """When the reports of these numbers, from 0, came."""
        seconds = self._outline.first + numbers * self._outline.every
        return self._pod.place.begins_at + np.rint(seconds * 1000 / self._pod.speed).astype(np.int64)

    def read(self, position: int, limit: int, now: int) -> list[LogLine]:
        """Up to `limit` lines from a position on that were printed by now."""
        begun, after, last, until = self._said_by(now)
        total = begun + after + len(last)
        start = max(position, total - KEPT_LINES)
        return [self._line(number, begun, after, last, until) for number in range(start, min(total, start + limit))]

    def next_at(self, now: int) -> int | None:
        """When the next line is printed, if the pod goes on as it does."""
        pod = self._pod
        end = pod.end()
        if end is not None and end.at <= now:
            return None
        elapsed = pod.elapsed_seconds(now)
        begun, after = self._outline.said_by(elapsed)
        if begun < len(self._outline.beginning):
            seconds = len(self._outline.beginning) * BEGINNING_SECONDS
        else:
            seconds = self._outline.next_after(after)
            if seconds is None:
                return end.at if end is not None else None
        at = max(now + 1, self._at(seconds))
        return min(at, end.at) if end is not None else at

    def _said_by(self, now: int) -> tuple[int, int, list[str], int]:
        """How many lines of the beginning, and after it, the last ones if it has ended, and until when it printed."""
        pod, end = self._pod, self._pod.end()
        if not pod.begun(now):
            return 0, 0, [], now
        over = end is not None and end.at <= now
        until = end.at if over and end else now
        begun, after = self._outline.said_by(pod.elapsed_seconds(until))
        return begun, after, ending(pod, end) if over and end else [], until

    def _line(self, number: int, begun: int, after: int, last: list[str], until: int) -> LogLine:
        if number < begun:
            return LogLine(self._at(number * BEGINNING_SECONDS), self._outline.beginning[number], number + 1)
        if number < begun + after:
            place = number - begun
            at = self._at(self._outline.first + place * self._outline.every)
            return LogLine(at, report(self._pod, self.training, self.model, place, clock_time(at)), number + 1)
        return LogLine(until, last[number - begun - after], number + 1)

    def _at(self, seconds: float) -> int:
        return self._pod.place.begins_at + round(seconds * 1000 / self._pod.speed)

    def _every(self) -> float:
        pod = self._pod
        match pod.story.framework:
            case Framework.MEGATRON:
                reports = pod.place.rank == pod.attempt.replicas - 1
            case Framework.TORCHTITAN | Framework.HUGGINGFACE:
                reports = pod.place.rank == 0
            case Framework.VLLM | Framework.JUPYTER:
                return SERVICE_SECONDS * (1 + mixed(pod.story.key, pod.place.rank) % 60 / 100)
            case Framework.PLAIN:
                return max(BATCH_SECONDS, (pod.story.run_seconds or 0.0) / 1000)
        return self.training.line_seconds if reports else math.inf


def clock_time(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)
