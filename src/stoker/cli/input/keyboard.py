"""Keys as they are pressed, without Enter and without an echo; Ctrl-C stays what it is."""

import contextlib
import os
import select
import sys
import termios
import time
from collections.abc import Iterator
from tty import setcbreak

LEAVE = b"qQ"
READ_BYTES = 1024


class Keyboard:
    """What may be typed while something is shown; where there is no terminal, nothing is."""

    def __init__(self, source: int | None) -> None:
        self._source = source

    def leaves_within(self, seconds: float) -> bool:
        """Wait that long; sooner, and yes, when `q` is pressed or the terminal is gone."""
        if self._source is None:
            time.sleep(seconds)
            return False
        until = time.monotonic() + seconds
        while select.select([self._source], [], [], max(0.0, until - time.monotonic()))[0]:
            if _leaves(self._source):
                return True
        return False


def _leaves(source: int) -> bool:
    try:
        typed = os.read(source, READ_BYTES)
    except OSError:
        return True
    return not typed or any(key in LEAVE for key in typed)


@contextlib.contextmanager
def keyboard() -> Iterator[Keyboard]:
    """The terminal is as it was afterwards, however this ends."""
    if not sys.stdin.isatty():
        yield Keyboard(None)
        return
    source = sys.stdin.fileno()
    before = termios.tcgetattr(source)
    try:
        setcbreak(source)
        yield Keyboard(source)
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)
