"""Inside a real pod: commands with their input and exit code, and a shell at a terminal."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from tests.api.cli.conftest import PATIENCE_SECONDS, STOKER, Serving, Terminal


def submitted(terminal: Terminal, *words: str) -> str:
    return terminal.json("submit", "--cpu", "100m", *words)["workloadId"]


@pytest.fixture(scope="module")
def pod(serving: Serving) -> Iterator[str]:
    """The id of a workload that sleeps."""
    terminal = serving.terminal
    workload_id = submitted(terminal, "--name", "sleeper", "--script", "sleep 300")
    terminal.ok("wait", "--for", "running", workload_id)
    yield workload_id
    terminal.ok("delete", "--yes", workload_id)
    time.sleep(1)


def test_a_command_has_its_output_and_its_exit_code(terminal: Terminal, pod: str) -> None:
    done = terminal.type("exec", pod, "--", "sh", "-c", "echo in; exit 7")
    assert (done.returncode, done.stdout) == (7, "in\n")
    assert terminal.ok("exec", f"{pod}-0", "echo", "-n", "by pod") == "by pod"
    assert terminal.ok("exec", "sleeper", "--", "echo", "by name") == "by name\n"


def test_a_command_reads_our_input_to_its_end(terminal: Terminal, pod: str) -> None:
    text = "".join(f"{number}\n" for number in range(50_000))
    assert terminal.ok("exec", pod, "--", "sort", "-n", stdin=text) == text
    assert terminal.ok("exec", "-n", pod, "--", "cat", stdin="unread") == ""


def test_what_is_not_there_or_has_ended_is_a_sentence(terminal: Terminal, pod: str) -> None:
    assert terminal.type("exec", "no-such-one", "--", "ls").returncode == 3
    ended = submitted(terminal, "--script", "true")
    terminal.ok("wait", ended)
    refused = terminal.type("exec", ended, "--", "ls")
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: ")
    assert "Traceback" not in refused.stderr


def test_who_may_not_is_told(stranger: Terminal, pod: str) -> None:
    assert stranger.type("exec", pod, "--", "ls").returncode == 4


def test_a_shell_has_this_terminal_its_size_and_its_keys(terminal: Terminal, pod: str) -> None:
    with Screen(terminal, "shell", pod, rows=30, columns=100) as screen:
        screen.type("echo $((40+2))_; stty size\n", until=b"30 100")
        screen.resize(rows=20, columns=77)
        screen.type("until stty size | grep '20 77'; do sleep 0.1; done; sleep 60\n", until=b"20 77\r\n")
        screen.type("\x03", until=b"^C")
        screen.type("exit 5\n", until=None)
        assert screen.ended() == 5
        assert screen.is_as_before()


class Screen:
    """A terminal that a person types at, one thing after another."""

    def __init__(self, terminal: Terminal, *words: str, rows: int, columns: int) -> None:
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
            env={**terminal.environment, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        )
        self._read_until(b"\x1b[?2004h|$ |# ")

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
        return self._process.wait(PATIENCE_SECONDS)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self._keyboard) == self._before

    def _read_until(self, one_of: bytes) -> None:
        shown, until = b"", time.monotonic() + PATIENCE_SECONDS
        with contextlib.suppress(OSError):
            while not any(each in shown for each in one_of.split(b"|")):
                there, _, _ = select.select([self._screen], [], [], max(0.0, until - time.monotonic()))
                assert there, shown
                shown += os.read(self._screen, 4096)
