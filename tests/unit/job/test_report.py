"""`stoker.report`: cheap, quiet, and complete by the end of the process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class ReportServer(ThreadingHTTPServer):
    """Takes reports; answers with the statuses that it is given, then with 204. A body above `limit` is 413, unread."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.tokens: set[str | None] = set()
        self.statuses: list[int] = []
        self.limit = 2 << 20
        self.came = threading.Condition()
        super().__init__(("127.0.0.1", 0), ReportHandler)

    @property
    def entries(self) -> list[Any]:
        return [entry for body in self.bodies for entry in body]

    def env(self) -> dict[str, str]:
        return {"STOKER_REPORT_URL": f"http://127.0.0.1:{self.server_port}/report", "STOKER_REPORT_TOKEN": "rt-1"}


class ReportHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        report_server = self.server
        assert isinstance(report_server, ReportServer)
        size = int(self.headers["Content-Length"])
        if size > report_server.limit:
            self.send_response(413)
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()
            return
        body = json.loads(self.rfile.read(size))
        with report_server.came:
            wrong = any("wrong" in entry["metrics"] for entry in body)
            status = 400 if wrong else report_server.statuses.pop(0) if report_server.statuses else 204
            if status == 204:
                report_server.bodies.append(body)
            report_server.tokens.add(self.headers["Authorization"])
            report_server.came.notify_all()
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002


@pytest.fixture
def report_server() -> Iterator[ReportServer]:
    with ReportServer() as opened:
        serving = threading.Thread(target=opened.serve_forever, args=(0.01,))
        serving.start()
        yield opened
        opened.shutdown()
        serving.join()


def job(script: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script as a job of its own."""
    clean = {name: value for name, value in os.environ.items() if name != "RANK" and not name.startswith("STOKER_")}
    return subprocess.run(
        [sys.executable, "-c", script], env=clean | env, capture_output=True, text=True, check=False, timeout=60
    )


def test_everything_that_was_reported_has_arrived_when_the_process_ends(report_server: ReportServer) -> None:
    ended = job(
        "import stoker\nfor step in range(2500):\n    stoker.report(step, loss=1 / (step + 1))", report_server.env()
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [entry["step"] for entry in report_server.entries] == list(range(2500))
    assert report_server.entries[3]["metrics"] == {"loss": 0.25}
    assert report_server.entries[0]["at"].endswith("Z")
    assert report_server.tokens == {"Bearer rt-1"}
    assert all(len(body) <= 1000 for body in report_server.bodies)


def test_what_is_not_a_finite_number_is_left_out(report_server: ReportServer) -> None:
    script = "import stoker\nstoker.report(1, loss=float('nan'), lr=0.5)\nstoker.report(step=2, loss=float('inf'))"
    assert job(script, report_server.env()).returncode == 0
    assert [entry["metrics"] for entry in report_server.entries] == [{"lr": 0.5}]


def test_a_server_that_is_away_for_a_moment_gets_it_later(report_server: ReportServer) -> None:
    report_server.statuses = [503, 429]
    ended = job("import stoker\nstoker.report(1, loss=0.5)\nstoker.report(2, loss=0.25)", report_server.env())
    assert [entry["step"] for entry in report_server.entries] == [1, 2]
    assert ended.stderr.count("training metrics") == 1


@pytest.mark.parametrize(
    "script",
    [
        "import stoker\nstoker.report(1, loss=0.5)\nstoker.report(2, loss=0.5)\nprint('trained')",
        "import stoker\nstoker.report('one', loss=0.5)\nstoker.report(2, loss=object())\nprint('trained')",
        "import stoker\nstoker.report(1, **{f'm{n}': 1 for n in range(65)})\nprint('trained')",
    ],
)
@pytest.mark.parametrize(
    "env", [{}, {"STOKER_REPORT_URL": "http://127.0.0.1:1/x", "STOKER_REPORT_TOKEN": "x"}, {"STOKER_REPORT_URL": "?"}]
)
def test_nothing_that_goes_wrong_reaches_the_training_code(script: str, env: dict[str, str]) -> None:
    ended = job(script, env)
    assert (ended.returncode, ended.stdout) == (0, "trained\n")
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


def test_a_child_process_reports_for_itself(report_server: ReportServer) -> None:
    script = """
import os, stoker
stoker.report(1, loss=0.5)
if os.fork() == 0:
    stoker.report(2, loss=0.25)
    raise SystemExit
os.wait()
"""
    assert job(script, report_server.env()).returncode == 0
    assert sorted(entry["step"] for entry in report_server.entries) == [1, 2]


def test_a_report_that_is_refused_takes_no_other_with_it(report_server: ReportServer) -> None:
    script = "import stoker\nfor n in range(20):\n    stoker.report(n, **{'wrong' if n == 7 else 'loss': 1.0})"
    assert job(script, report_server.env()).returncode == 0
    assert [entry["step"] for entry in report_server.entries] == [n for n in range(20) if n != 7]


def test_a_batch_above_the_servers_limit_is_split_until_all_of_it_is_taken(report_server: ReportServer) -> None:
    script = "import stoker\nfor n in range(300):\n    stoker.report(n, **{'m' * 20_000: 1.0})"
    ended = job(script, report_server.env())
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [entry["step"] for entry in report_server.entries] == list(range(300))


def test_a_report_that_is_too_large_by_itself_is_dropped_with_a_warning_and_takes_no_other_with_it(
    report_server: ReportServer,
) -> None:
    report_server.limit = 4096
    script = "import stoker\nfor n in range(20):\n    stoker.report(n, **{('m' * 5000) if n == 7 else 'loss': 1.0})"
    ended = job(script, report_server.env())
    assert ended.returncode == 0
    assert [entry["step"] for entry in report_server.entries] == [n for n in range(20) if n != 7]
    assert ended.stderr.count("step 7") == 1, ended.stderr


def test_the_half_that_was_taken_is_not_sent_again_when_the_server_goes_away_before_the_other(
    report_server: ReportServer,
) -> None:
    report_server.statuses = [413, 204, 503]
    ended = job("import stoker\nfor n in range(20):\n    stoker.report(n, loss=1.0)", report_server.env())
    assert ended.returncode == 0
    assert [entry["step"] for entry in report_server.entries] == list(range(20))


def test_each_process_says_which_rank_it_is(report_server: ReportServer) -> None:
    job("import stoker\nstoker.report(1, loss=0.5)", {**report_server.env(), "RANK": "3"})
    job("import stoker\nstoker.report(1, loss=0.5)", {**report_server.env(), "RANK": "first"})
    assert [entry.get("rank") for entry in report_server.entries] == [3, None]


def test_importing_it_costs_next_to_nothing() -> None:
    script = (
        "import sys, stoker\nassert 'stoker.job' not in sys.modules\nstoker.report\n"
        "assert not {'msgspec', 'httpx', 'click', 'numpy', 'urllib.request', 'ssl'} & set(sys.modules)"
    )
    ended = job(script, {})
    assert (ended.returncode, ended.stderr) == (0, "")
