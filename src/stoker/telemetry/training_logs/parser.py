"""One parser per pod, fed line by line. It never fails, and its time grows only with the length of the line."""

import re
from collections.abc import Mapping, Sequence

from stoker.domain.training import Measured
from stoker.telemetry.training.mappings import read_mapping
from stoker.telemetry.training.pairs import read_pairs
from stoker.telemetry.training.progress import Progress
from stoker.telemetry.training.segments import Found, read_segments

LONGEST = 16_384
"""No line of metrics is longer than this."""
NOTHING: Sequence[Measured] = ()
RANKS_REMEMBERED = 256
"""Steps of which it is remembered which rank spoke of them."""
_RANK = re.compile(r"\s{0,8}\[(?:rank|default)[-_ ]?(\d{1,7})(?:/\d{1,7})?\]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?|[@-Z\\^_])")


class TrainingParser:
    def __init__(self) -> None:
        self._progress = Progress()
        self._speakers: dict[int, str] = {}
        self._said: Mapping[str, float] = {}

    def parse(self, text: str, at: int) -> Sequence[Measured]:
        """What a line says. One that is drawn over says several things, and goes on with what the line before said."""
        if not is_candidate(text):
            return NOTHING
        if "\x1b" in text:
            text = _ANSI.sub("", text)
        if "\r" not in text and "\b" not in text:
            found = self._read(text)
            if found is None or self._is_echo(text, found[0]):
                return NOTHING
            self._said = found[1]
            return (Measured(at, *found),)
        measured: list[Measured] = []
        for part in re.split(r"[\r\b]+", text):
            found = self._read(part)
            if found is not None and found[1] != self._said:
                self._said = found[1]
                measured.append(Measured(at, *found))
        return measured

    def _is_echo(self, text: str, step: int | None) -> bool:
        """Whether another rank of this pod has spoken of this step: then they all say the same."""
        named = _RANK.match(text) if step is not None else None
        if named is None or step is None:
            return False
        if len(self._speakers) > RANKS_REMEMBERED:
            del self._speakers[next(iter(self._speakers))]
        return self._speakers.setdefault(step, named[1]) != named[1]

    def _read(self, text: str) -> Found | None:
        if len(text) > LONGEST or not text or self._progress.heading(text):
            return None
        if "|" in text and (found := read_segments(text)):
            return found
        in_progress, step = self._progress.step(text)
        if "{" in text and "}" in text:
            mapping = read_mapping(text, step)
            if isinstance(mapping, str):
                return read_segments(mapping) or read_pairs(mapping[:LONGEST], None)
            if mapping is not None:
                return mapping
        return read_pairs(text, step, in_progress=in_progress)


def is_candidate(text: str) -> bool:
    """A quick look: whether there is a word for a step and one for a metric at all."""
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
