"""Reads single key presses without Enter and without echo. Ctrl-C keeps its meaning."""

import contextlib
import os
import select
import sys
import termios
import time
from collections.abc import Iterator
from tty import setcbreak

QUIT_KEYS = b"qQ"
READ_BYTES = 1024


class Keyboard:
    """The keyboard while something is displayed; without a terminal there are no keys."""

    def __init__(self, source: int | None) -> None:
        self._fd = source

    def quit_pressed_within(self, seconds: float) -> bool:
        """Wait for this time; returns True early if `q` is pressed or the terminal is closed."""
        if self._fd is None:
            time.sleep(seconds)
            return False
        until = time.monotonic() + seconds
        while select.select([self._fd], [], [], max(0.0, until - time.monotonic()))[0]:
            if _is_quit(self._fd):
                return True
        return False


def _is_quit(source: int) -> bool:
    try:
        typed = os.read(source, READ_BYTES)
    except OSError:
        return True
    return not typed or any(key in QUIT_KEYS for key in typed)


@contextlib.contextmanager
def open_keyboard() -> Iterator[Keyboard]:
    """Restores the state of the terminal in every case."""
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
