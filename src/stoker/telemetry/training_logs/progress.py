"""Reads the step from progress bars of tqdm, Lightning and Keras: the position in the epoch plus earlier epochs."""

import re

from stoker.domain.metrics.training import MAX_STEP

_BAR = re.compile(r"(?<!\d)(\d{1,12})/(\d{1,12}) (?:\[(?=[\d:?]{2,12}<|[=>.]{3,60}\])|[━╸╺]{2})")
_RICH = re.compile(r"(?<!\d)(\d{1,12})/(\d{1,12}) \d{1,3}:\d\d:\d\d •")
_EPOCH = re.compile(r"(?:^|[\s\[(])epoch:?\s{1,3}(\d{1,9})(?:\s?/\s?(\d{1,9}))?", re.IGNORECASE)


class ProgressBarTracker:
    """Tracks the epoch of a pod, which Keras prints on its own line."""

    def __init__(self) -> None:
        self._epoch: int | None = None

    def is_epoch_heading(self, text: str) -> bool:
        """Whether a line is only an epoch heading such as `Epoch 2/5`."""
        named = _EPOCH.match(text)
        if named is None or named.end() != len(text.rstrip()) or not named[2]:
            return False
        self._epoch = max(0, int(named[1]) - 1)
        return True

    def find_step(self, text: str) -> tuple[bool, int | None]:
        """Whether a line has a progress bar, and its step if known."""
        if "<" not in text and "━" not in text and "[=" not in text and "..]" not in text:
            return False, None
        rich = "•" in text
        bar = (_RICH if rich else _BAR).search(text)
        if bar is None:
            return False, None
        done, total = int(bar[1]), int(bar[2])
        named = _EPOCH.search(text, 0, bar.start())
        if named:
            epoch = int(named[1]) - (1 if named[2] and not rich else 0)  # `1/5` counts from 1, Lightning from 0
            return True, _global_step(max(0, epoch), total, done)
        if "<" in text[bar.end() : bar.end() + 12]:
            return True, done
        return True, None if self._epoch is None else _global_step(self._epoch, total, done)


def _global_step(epoch: int, steps_of_epoch: int, done: int) -> int | None:
    """The step of the run; None if it is implausibly high."""
    step = epoch * steps_of_epoch + done
    return step if step < MAX_STEP else None
