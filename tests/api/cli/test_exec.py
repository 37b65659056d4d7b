"""Inside a real pod: commands with their input and exit code, and a shell at a terminal."""

import time
from collections.abc import Iterator

import pytest
from tests.api.cli.conftest import Serving, Terminal
from tests.api.cli.screen import Screen

PROMPT = b"\x1b[?2004h|$ |# "


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


def test_a_command_without_a_terminal_keeps_stderr_apart(terminal: Terminal, pod: str) -> None:
    done = terminal.type("exec", pod, "--", "sh", "-c", "echo out; echo wrong >&2")
    assert (done.returncode, done.stdout, done.stderr) == (0, "out\n", "wrong\n")


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
    before = {"COLUMNS": "80", "LINES": "24"}
    with Screen(terminal, "shell", pod, rows=30, columns=100, until=PROMPT, **before) as screen:
        screen.type("echo $((40+2))_; stty size\n", until=b"30 100")
        screen.resize(rows=20, columns=77)
        screen.type("until stty size | grep '20 77'; do sleep 0.1; done; sleep 60\n", until=b"20 77\r\n")
        screen.type("\x03", until=b"^C")
        screen.type("exit 5\n", until=None)
        assert screen.ended() == 5
        assert screen.is_as_before()
