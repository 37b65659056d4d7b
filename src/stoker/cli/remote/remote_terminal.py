"""Connects this terminal to a command in a pod: forwards input, output and window sizes."""

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from tty import setraw
from typing import TYPE_CHECKING

from stoker.client.transport.request_flow import Unreachable

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.exec import RemoteCommand

READ_BYTES = 64 * 1024


def is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def run_in_pod(
    client: "Stoker", workload_id: str, pod: str, command: tuple[str, ...], *, tty: bool, stdin: bool
) -> int:
    """Run the command, on this terminal if one is requested, and return its exit code."""
    from stoker.client.exec import STDERR

    columns, rows = _terminal_size()
    with (
        client.exec(workload_id, command, pod=pod, tty=tty, stderr=not tty, columns=columns, rows=rows) as remote,
        _raw_mode() if tty else contextlib.nullcontext(),
        _resize_pipe() as resized,
    ):
        keyboard = sys.stdin.fileno() if stdin else None
        if keyboard is None:
            remote.end_input()
        threading.Thread(target=_forward_input, args=(remote, keyboard, resized), daemon=True).start()
        for stream, printed in remote.streams():
            place = sys.stderr.buffer if stream == STDERR else sys.stdout.buffer
            place.write(printed)
            place.flush()
    if remote.exit_code is None:
        raise Unreachable(client.server, "it did not say how the command ended")
    return remote.exit_code


def _forward_input(remote: "RemoteCommand", keyboard: int | None, resized: int) -> None:
    """Forward input and new window sizes until the input ends; window sizes are forwarded after that too."""
    while True:
        ready, _, _ = select.select([each for each in (keyboard, resized) if each is not None], [], [])
        if resized in ready:
            if not os.read(resized, READ_BYTES):
                return
            remote.resize(*_terminal_size())
        if keyboard in ready:
            typed = os.read(keyboard, READ_BYTES)
            if typed:
                remote.write(typed)
            else:
                remote.end_input()
                keyboard = None


def _terminal_size() -> tuple[int, int]:
    """The current columns and rows of this terminal; environment variables may be out of date."""
    try:
        size = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return shutil.get_terminal_size()
    return size if size.columns and size.lines else os.terminal_size((80, 24))  # a new pty has no size yet


@contextlib.contextmanager
def _raw_mode() -> Iterator[None]:
    """Pass every key to the command, including Ctrl-C; restores the state of the terminal in every case."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        setraw(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resize_pipe() -> Iterator[int]:
    """A pipe that becomes readable when the window is resized; closed at the end."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def note(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(writer, b"r")

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield reader
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(writer)
