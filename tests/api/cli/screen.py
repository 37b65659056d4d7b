"""A real pseudo-terminal with scripted input."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

from tests.api.cli.conftest import STOKER, TIMEOUT_SECONDS, Terminal


class Screen:
    """A terminal that a test types at."""

    def __init__(
        self, terminal: Terminal, *words: str, rows: int, columns: int, until: bytes, **environment: str
    ) -> None:
        self.shown = b""
        self._screen, self._keyboard = pty.openpty()
        self.resize(rows=rows, columns=columns)
        self._before = termios.tcgetattr(self._keyboard)
        self._process = subprocess.Popen(
            [*STOKER, *words],
            stdin=self._keyboard,
            stdout=self._keyboard,
            stderr=self._keyboard,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**terminal.environment, "TERM": "xterm", **environment},
        )
        self._read_until(until)

    def __enter__(self) -> "Screen":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)
        os.close(self._keyboard)

    def resize(self, *, rows: int, columns: int) -> None:
        fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, keys: str, *, until: bytes | None) -> None:
        time.sleep(0.2)
        os.write(self._screen, keys.encode())
        if until is not None:
            self._read_until(until)

    def ended(self) -> int:
        return self._process.wait(TIMEOUT_SECONDS)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._keyboard) == self._before

    def _read_until(self, one_of: bytes) -> None:
        """Read until one of the texts, separated by |, is shown or the terminal is closed."""
        shown, until = b"", time.monotonic() + TIMEOUT_SECONDS
        with contextlib.suppress(OSError):
            while not any(each in shown for each in one_of.split(b"|")):
                there, _, _ = select.select([self._screen], [], [], max(0.0, until - time.monotonic()))
                assert there, shown
                printed = os.read(self._screen, 4096)
                shown, self.shown = shown + printed, self.shown + printed
