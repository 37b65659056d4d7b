"""`stoker serve` as a process: start, refused starts and shutdown."""

import contextlib
import os
import pty
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.api.cli.conftest import STOKER, TIMEOUT_SECONDS, Serving, Terminal


def test_a_start_announces_itself_without_the_key(serving: Serving) -> None:
    key = (serving.data_dir / "admin.key").read_text().strip()
    assert serving.announced == [
        f"Stoker is ready at {serving.address}",
        f"Data dir:  {serving.data_dir}",
        f"Admin key: {serving.data_dir / 'admin.key'}",
        f"API docs:  {serving.address}/docs",
        f"Next:      STOKER_DATA_DIR={serving.data_dir} stoker whoami",
    ]
    assert key not in "\n".join(serving.announced)


def test_the_machine_is_a_node_of_the_overview_with_or_without_gpus(terminal: Terminal) -> None:
    [node] = terminal.json("nodes")["items"]
    total = terminal.json("overview")["total"]
    assert (total["nodes"], total["healthyNodes"]) == (1, 1)
    assert total["cpuNodes"] == (0 if node["gpus"] else 1)


def test_the_announced_command_works(serving: Serving, tmp_path: Path) -> None:
    line = serving.announced[-1].removeprefix("Next:").strip()
    environment = {**Terminal(tmp_path).environment, "PATH": f"{Path(STOKER[0]).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment, check=True)
    assert "admin" in done.stdout


def test_a_second_server_on_the_data_dir_is_refused_in_a_sentence(serving: Serving, terminal: Terminal) -> None:
    refused = terminal.type("serve", "--port", "0")
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"Error: Another Stoker (process {serving.process.pid}) already uses {serving.data_dir}."
    )
    assert "Traceback" not in refused.stderr


def test_a_port_in_use_is_a_sentence(serving: Serving, terminal: Terminal, tmp_path: Path) -> None:
    port = serving.address.rpartition(":")[2]
    refused = terminal.type("serve", "--port", port, "--data-dir", str(tmp_path / "other"))
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Error: Port {port} of 127.0.0.1 is in use by another program.\n")
    assert "--port" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_bad_setting_is_a_sentence_and_code_2(terminal: Terminal) -> None:
    refused = terminal.type("serve", STOKER_PORT="eighty")
    assert refused.returncode == 2
    assert refused.stderr.startswith('Error: port (env STOKER_PORT): "eighty" is not a whole number.')


def test_a_data_dir_that_cannot_be_is_a_sentence(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = terminal.type("serve", "--port", "0", "--data-dir", str(tmp_path / "file"))
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: The data dir ")


def test_certificates_that_are_none_are_a_sentence(terminal: Terminal, tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_text("no")
    files = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    refused = terminal.type("serve", "--port", "0", "--data-dir", str(tmp_path / "data"), *files)
    assert refused.returncode == 2
    assert "TLS certificate" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_stop_is_quick_and_ends_well_even_with_an_open_connection(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        serving = Serving(tmp_path, tmp_path / "data")
        host, _, port = serving.address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))):
            begun = time.monotonic()
            code, errors = serving.stop(number)
        assert (code, errors) == (0, "")
        assert time.monotonic() - begun < 30


def test_a_server_outlives_the_reader_of_its_announcement(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [*STOKER, "serve", "--port", "0", "--data-dir", str(tmp_path / "data"), "--log-level", "warning"]
    process = subprocess.Popen(words, stdout=writer, stderr=subprocess.PIPE, env=Terminal(tmp_path).environment)
    os.close(writer)
    until = time.monotonic() + TIMEOUT_SECONDS
    while not (tmp_path / "data" / "admin.key").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    process.communicate(timeout=TIMEOUT_SECONDS)


def test_a_reader_who_has_seen_enough_is_no_error(terminal: Terminal) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*STOKER, "audit"], stdout=writer, stderr=subprocess.PIPE, text=True, env=terminal.environment, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_at_a_terminal_it_asks_before_it_destroys(terminal: Terminal) -> None:
    terminal.ok("user", "create", "eve")
    code, shown = at_a_terminal(terminal, "user", "delete", "eve", after=b"[y/N]", answer=b"n\n")
    assert (code, "Nothing was done." in shown) == (1, True)
    assert at_a_terminal(terminal, "user", "delete", "eve", after=b"[y/N]", answer=b"y\n")[0] == 0


def test_at_a_terminal_a_password_is_asked_for_without_showing_it(terminal: Terminal) -> None:
    code, shown = at_a_terminal(terminal, "login", "-u", "eve", after=b"Password", answer=b"s3cret-typed\n")
    assert (code, "s3cret-typed" in shown) == (4, False)


def test_an_interrupt_is_code_130_without_a_traceback(terminal: Terminal) -> None:
    code, shown = at_a_terminal(terminal, "login", "-u", "eve", after=b"Password", answer=None)
    assert (code, "Traceback" in shown) == (130, False)


def test_at_a_terminal_a_table_is_drawn(terminal: Terminal) -> None:
    code, shown = at_a_terminal(terminal, "cluster", "list", environment={"NO_COLOR": ""})
    assert code == 0
    assert "\x1b[1mNAME" in shown
    assert "\x1b[" not in at_a_terminal(terminal, "cluster", "list")[1]


def at_a_terminal(
    terminal: Terminal,
    *words: str,
    after: bytes = b"",
    answer: bytes | None = b"",
    environment: Mapping[str, str] | None = None,
) -> tuple[int, str]:
    """Run with a terminal on all three streams. The answer is typed once `after` is shown; None is an interrupt."""
    screen, keyboard = pty.openpty()
    process = subprocess.Popen(
        [*STOKER, *words],
        stdin=keyboard,
        stdout=keyboard,
        stderr=keyboard,
        start_new_session=True,
        env={**terminal.environment, "TERM": "xterm", **(environment or {})},
    )
    os.close(keyboard)
    shown, answered = b"", not after
    until = time.monotonic() + TIMEOUT_SECONDS
    with contextlib.suppress(OSError):  # the terminal is gone when the process is
        while time.monotonic() < until and (part := os.read(screen, 4096)):
            shown += part
            if not answered and after in shown:
                answered = True
                time.sleep(0.1)  # the prompt is there a moment before the echo is off
                os.write(screen, answer) if answer is not None else process.send_signal(signal.SIGINT)
    code = process.wait(TIMEOUT_SECONDS)
    os.close(screen)
    return code, shown.decode()
