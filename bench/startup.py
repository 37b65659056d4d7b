"""How fast Stoker starts and how little it needs then: the server from process start to ready, and `stoker --help`.

Ratios are to `python -c pass` of the same interpreter, measured in turns, so that they hold on any machine.
"""

import contextlib
import http.client
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

STARTS = 5
HELPS = 21
IDLE_SECONDS = 5.0
IDLE_LIMIT_MB = 90.0
HELP_LIMIT = 6.0
TIMEOUT_SECONDS = 30.0

STOKER = (sys.executable, str(Path(sys.executable).with_name("stoker")))
EMPTY_GROUP = "import click\n@click.group()\ndef cli(): pass\ncli()"


def server() -> Iterator[str]:
    """seconds from process start until /readyz answers, and memory when idle"""
    folder = Path(tempfile.mkdtemp(prefix="stoker-bench-"))
    try:
        fresh = [started(folder / str(number)) for number in range(STARTS)]
        again = [started(folder / "0") for _ in range(STARTS)]
        megabytes, proportional = idle(folder / "0")
    finally:
        shutil.rmtree(folder)
    yield f"fresh data dir:    median {statistics.median(fresh):.3f} s of {STARTS}"
    yield f"existing data dir: median {statistics.median(again):.3f} s of {STARTS}"
    yield f"idle after {IDLE_SECONDS:.0f} s: {megabytes:.1f} MB RSS, {proportional:.1f} MB PSS" + judged(
        megabytes, IDLE_LIMIT_MB
    )


def help_page() -> Iterator[str]:
    """`stoker --help` beside a bare interpreter and an empty click group"""
    commands = {
        "python -c pass": (sys.executable, "-c", "pass"),
        "empty click group": (sys.executable, "-c", EMPTY_GROUP, "--help"),
        "stoker --help": (*STOKER, "--help"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(HELPS):
        for name, command in commands.items():
            begun = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begun)
    bare = statistics.median(times["python -c pass"])
    for name, taken in times.items():
        ratio = statistics.median(taken) / bare
        limit = judged(ratio, HELP_LIMIT) if name == "stoker --help" else ""
        yield f"{name:<18} {statistics.median(taken) * 1000:6.1f} ms, {ratio:.2f} x{limit}"


def judged(value: float, limit: float) -> str:
    return f" (limit {limit:g}: {'kept' if value < limit else 'BROKEN'})"


def started(data_dir: Path) -> float:
    with running(data_dir) as (_process, seconds):
        return seconds


def idle(data_dir: Path) -> tuple[float, float]:
    with running(data_dir) as (process, _seconds):
        time.sleep(IDLE_SECONDS)
        memory = psutil.Process(process.pid).memory_full_info()
        return memory.rss / 1e6, memory.pss / 1e6


@contextlib.contextmanager
def running(data_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A server that has become ready, and the seconds that took; stopped afterwards."""
    port = free_port()
    begun = time.perf_counter()
    process = subprocess.Popen(
        (*STOKER, "serve", "--port", str(port), "--data-dir", str(data_dir), "--log-level", "warning"),
        stdout=subprocess.DEVNULL,
    )
    try:
        while not is_ready(port):
            if process.poll() is not None or time.perf_counter() - begun > TIMEOUT_SECONDS:
                raise RuntimeError("the server did not become ready")
            time.sleep(0.002)
        yield process, time.perf_counter() - begun
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_SECONDS)


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


BENCHES = [server, help_page]
