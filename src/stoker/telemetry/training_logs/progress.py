"""Progress bars: tqdm, Lightning's, and Keras's. They say how far an epoch is; with the epoch that is the step."""

import re

from stoker.domain.training import HIGHEST_STEP

_BAR = re.compile(r"(?<!\d)(\d{1,12})/(\d{1,12}) (?:\[(?=[\d:?]{2,12}<|[=>.]{3,60}\])|[━╸╺]{2})")
_RICH = re.compile(r"(?<!\d)(\d{1,12})/(\d{1,12}) \d{1,3}:\d\d:\d\d •")
_EPOCH = re.compile(r"(?:^|[\s\[(])epoch:?\s{1,3}(\d{1,9})(?:\s?/\s?(\d{1,9}))?", re.IGNORECASE)


class Progress:
    """Where the bar of one pod stands. Keras names the epoch on a line of its own."""

    def __init__(self) -> None:
        self._epoch: int | None = None

    def heading(self, text: str) -> bool:
        """Whether this is only the heading of an epoch, such as `Epoch 2/5`."""
        named = _EPOCH.match(text)
        if named is None or named.end() != len(text.rstrip()) or not named[2]:
            return False
        self._epoch = max(0, int(named[1]) - 1)
        return True

    def step(self, text: str) -> tuple[bool, int | None]:
        """Whether there is a bar, and its step if that is known."""
        if "<" not in text and "━" not in text and "[=" not in text and "..]" not in text:
            return False, None
        rich = "•" in text
        bar = (_RICH if rich else _BAR).search(text)
        if bar is None:
            return False, None
        done, all_ = int(bar[1]), int(bar[2])
        named = _EPOCH.search(text, 0, bar.start())
        if named:
            epoch = int(named[1]) - (1 if named[2] and not rich else 0)  # `1/5` counts from 1, Lightning from 0
            return True, _step(max(0, epoch), all_, done)
        if "<" in text[bar.end() : bar.end() + 12]:
            return True, done
        return True, None if self._epoch is None else _step(self._epoch, all_, done)


def _step(epoch: int, steps_of_epoch: int, done: int) -> int | None:
    """The step of the whole run; none if no run gets that far."""
    step = epoch * steps_of_epoch + done
    return step if step < HIGHEST_STEP else None
