"""This terminal as that of a command elsewhere: keys go there as they are pressed, what it prints appears here."""

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

from stoker.client.exchange import Unreachable

if TYPE_CHECKING:
    from stoker.client import Stoker
    from stoker.client.remote import RemoteCommand

READ_BYTES = 64 * 1024


def at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def run_remotely(
    client: "Stoker", workload_id: str, pod: str, command: tuple[str, ...], *, tty: bool, stdin: bool
) -> int:
    """Run it, with this terminal where there is to be one, and say how it ended."""
    columns, rows = _size()
    with (
        client.exec(workload_id, command, pod=pod, tty=tty, columns=columns, rows=rows) as remote,
        _raw() if tty else contextlib.nullcontext(),
        _resizes() as resized,
    ):
        keyboard = sys.stdin.fileno() if stdin else None
        if keyboard is None:
            remote.end_input()
        threading.Thread(target=_type, args=(remote, keyboard, resized), daemon=True).start()
        for printed in remote:
            sys.stdout.buffer.write(printed)
            sys.stdout.buffer.flush()
    if remote.exit_code is None:
        raise Unreachable(client.server, "it did not say how the command ended")
    return remote.exit_code


def _type(remote: "RemoteCommand", keyboard: int | None, resized: int) -> None:
    """What is typed, and each new size of the window, until the input ends; the sizes go on after that."""
    while True:
        ready, _, _ = select.select([each for each in (keyboard, resized) if each is not None], [], [])
        if resized in ready:
            if not os.read(resized, READ_BYTES):
                return
            remote.resize(*_size())
        if keyboard in ready:
            typed = os.read(keyboard, READ_BYTES)
            if typed:
                remote.write(typed)
            else:
                remote.end_input()
                keyboard = None


def _size() -> tuple[int, int]:
    """Columns and rows of this terminal as it is now: variables of the environment may tell of how it was."""
    try:
        return os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return shutil.get_terminal_size()


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """Every key goes through, Ctrl-C too; the terminal is as it was afterwards, however this ends."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        setraw(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizes() -> Iterator[int]:
    """A pipe that has something to read when the window has a new size; closed, at the end."""
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
