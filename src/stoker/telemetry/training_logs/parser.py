"""The training log parser of one pod, which is given every line.

Parsing never raises, and its time is linear in the length of the line.
"""

import re
from collections.abc import Mapping, Sequence

from stoker.domain.metrics.training import TrainingSample
from stoker.telemetry.training_logs.json_lines import parse_mapping
from stoker.telemetry.training_logs.key_values import parse_key_values
from stoker.telemetry.training_logs.megatron import ParsedLine, parse_megatron
from stoker.telemetry.training_logs.progress import ProgressBarTracker

MAX_LINE_LENGTH = 16_384
"""Longer lines are not parsed."""
NO_METRICS: Sequence[TrainingSample] = ()
MAX_REMEMBERED_STEPS = 256
"""For how many steps the reporting rank is remembered."""
_RANK = re.compile(r"\s{0,8}\[(?:rank|default)[-_ ]?(\d{1,7})(?:/\d{1,7})?\]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?|[@-Z\\^_])")


class TrainingParser:
    def __init__(self) -> None:
        self._progress = ProgressBarTracker()
        self._rank_by_step: dict[int, str] = {}
        self._last_metrics: Mapping[str, float] = {}

    def parse(self, text: str, at: int) -> Sequence[TrainingSample]:
        """The samples of a line. A line with carriage returns, such as a progress bar, may have several; repeated
        metrics are left out."""
        if not is_candidate(text):
            return NO_METRICS
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        if "\r" not in text and "\b" not in text:
            found = self._parse_line(text)
            if found is None or self._is_duplicate_rank(text, found[0]):
                return NO_METRICS
            self._last_metrics = found[1]
            return (TrainingSample(at, *found),)
        samples: list[TrainingSample] = []
        for part in re.split(r"[\r\b]+", text):
            found = self._parse_line(part)
            if found is not None and found[1] != self._last_metrics:
                self._last_metrics = found[1]
                samples.append(TrainingSample(at, *found))
        return samples

    def _is_duplicate_rank(self, text: str, step: int | None) -> bool:
        """Whether another rank of the pod reported this step; all ranks report the same metrics."""
        named = _RANK.match(text) if step is not None else None
        if named is None or step is None:
            return False
        if len(self._rank_by_step) > MAX_REMEMBERED_STEPS:
            del self._rank_by_step[next(iter(self._rank_by_step))]
        return self._rank_by_step.setdefault(step, named[1]) != named[1]

    def _parse_line(self, text: str) -> ParsedLine | None:
        if len(text) > MAX_LINE_LENGTH or not text or self._progress.is_epoch_heading(text):
            return None
        if "|" in text and (found := parse_megatron(text)):
            return found
        in_progress, step = self._progress.find_step(text)
        if "{" in text and "}" in text:
            mapping = parse_mapping(text, step)
            if isinstance(mapping, str):
                return parse_megatron(mapping) or parse_key_values(mapping[:MAX_LINE_LENGTH], None)
            if mapping is not None:
                return mapping
        return parse_key_values(text, step, in_progress=in_progress)


def is_candidate(text: str) -> bool:
    """A quick test: whether a line has a word for a step and one for a metric."""
    low = text.lower()
    if not ("step" in low or "iter" in low or "epoch" in low or "it/s" in low or "s/it" in low or "update" in low):
        return False
    return (
        "loss" in low
        or "epoch " in low
        or "acc" in low
        or "flop" in low
        or "/s" in low
        or "persec" in low
        or "per_sec" in low
        or "per sec" in low
        or "grad" in low
        or "tps" in low
        or "skipped" in low
        or "perplexity" in low
        or "ppl" in low
    )
