"""Real jobs through the command line: output, exit codes, and detaching."""

import asyncio
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from tests.api.cli.conftest import STOKER, TIMEOUT_SECONDS, Serving, Terminal

from stoker.client import AsyncStoker

LINES = b"plain\n\n\ttabs  and blanks \ncarriage\rreturn\n\xc3\xbc \xe2\x98\x83 \xf0\x9f\x94\xa5\n{'not': html}\n"
ENTERABLE = "/"
"""A directory that jobs can enter, wherever the checkout is."""


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server with pretend GPUs; its jobs are stopped at the end."""
    home = tmp_path_factory.mktemp("home")
    running = Serving(home, home / "data", "--gpus", "4")
    yield running
    left = running.terminal.json("list", "--phase", "Pending", "--phase", "Running", "--limit", "0")["items"]
    if left:
        ids = [each["workloadId"] for each in left]
        running.terminal.type("delete", "--yes", *ids)
        time.sleep(1)
    running.stop()


def submitted(terminal: Terminal, *words: str) -> str:
    return msgspec.json.decode(terminal.ok("submit", "--json", *words))["workloadId"]


def test_a_command_prints_and_ends_here(terminal: Terminal) -> None:
    done = terminal.type("run", "--", "python3", "-c", 'print("hi")')
    assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr


def test_every_line_arrives_as_it_was_printed(terminal: Terminal, shared_folder: Path) -> None:
    (shared_folder / "lines").write_bytes(LINES)
    words = [*STOKER, "run", "-q", "--", "cat", str(shared_folder / "lines")]
    done = subprocess.run(
        words, capture_output=True, env=terminal.environment, cwd=ENTERABLE, timeout=TIMEOUT_SECONDS, check=True
    )
    assert (done.stdout, done.stderr) == (LINES, b"")


def test_what_the_command_line_submits_is_known_as_such(serving: Serving) -> None:
    submitted(serving.terminal, "--cpu", "100m", "--name", "typed", "--", "true")
    bearer = {"Authorization": f"Bearer {(serving.data_dir / 'admin.key').read_text().strip()}"}
    sent = {
        "displayName": "programmed",
        "groupVersionKind": {"kind": "Job", "version": "v1"},
        "image": "python:3.12",
        "entryPoint": "dHJ1ZQ==",
        "resource": {"cpu": "100m", "memory": "64Mi", "replica": 1},
    }
    with httpx.Client(base_url=serving.address, headers=bearer) as http:
        http.post("/api/custom/workloads", json=sent).raise_for_status()
        found = http.get("/api/v1/workloads?limit=500").raise_for_status().json()["workloads"]
    sources = {each["name"]: each["source"] for each in found}
    assert (sources["typed"], sources["programmed"]) == ("CLI", "Control-plane")


def test_no_line_is_lost_when_there_are_many(terminal: Terminal) -> None:
    assert terminal.ok("run", "-q", "seq", "1", "20000").split() == [str(number) for number in range(1, 20001)]


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137)])
def test_the_exit_code_of_the_job_is_ours(terminal: Terminal, script: str, code: int) -> None:
    assert terminal.type("run", f"echo before; {script}").returncode == code


def test_output_appears_while_the_job_runs(terminal: Terminal) -> None:
    words = [*STOKER, "run", "-q", "echo first; sleep 30"]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=terminal.environment, cwd=ENTERABLE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    workload_id = said.decode().partition(" ")[0]
    assert (process.returncode, said.decode()) == (
        130,
        f"{workload_id} goes on. To stop it: stoker stop {workload_id}\n",
    )
    assert terminal.json("describe", workload_id)["phase"] == "Running"
    terminal.ok("stop", workload_id)


@pytest.mark.parametrize("verb", [("logs", "-f"), ("wait",)])
def test_an_interrupt_leaves_the_job_and_says_how_to_stop_it(terminal: Terminal, verb: tuple[str, ...]) -> None:
    workload_id = submitted(terminal, "--cpu", "100m", "--script", "echo up; sleep 60")
    terminal.ok("wait", "--for", "running", workload_id)
    words = [*STOKER, *verb, workload_id]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=terminal.environment) as process:
        assert process.stderr is not None
        assert b"Running" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    assert process.returncode == 130
    assert said.decode().endswith(f"{workload_id} goes on. To stop it: stoker stop {workload_id}\n")
    terminal.ok("stop", workload_id)
    assert terminal.type("wait", workload_id).stdout.startswith(f"{workload_id}: Stopped")


def test_a_job_from_a_file_and_what_it_left_behind(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "night-job.yaml"
    path.write_text(
        "script: |\n  echo one $N\n  echo Two\n  exit 4\nresource: {cpu: 100m, memory: 64Mi}\nenv: {N: 5}\n"
    )
    assert terminal.json("submit", "-f", str(path), "--dry-run")["accepted"] is True
    done = terminal.type("submit", "-f", str(path), "--follow")
    assert (done.returncode, done.stdout) == (4, "one 5\nTwo\n")
    assert terminal.ok("logs", "night-job") == "one 5\nTwo\n"
    assert terminal.ok("logs", "night-job", "--grep", "tWO") == "Two\n"
    assert terminal.ok("logs", "night-job", "--tail", "1", "--since", "1h") == "Two\n"
    stamped = terminal.ok("logs", "night-job", "--timestamps").splitlines()
    assert [line.split(" ", 1)[1] for line in stamped] == ["one 5", "Two"]
    assert "Nothing" not in terminal.ok("list", "night", "--phase", "Failed", "--since", "1h")
    assert "PodFailed" in terminal.ok("describe", "night-job")


def test_every_attempt_and_every_replica_is_followed(terminal: Terminal) -> None:
    tried = terminal.type("submit", "--follow", "--cpu", "100m", "--max-retry", "1", "--script", "echo try; exit 9")
    assert (tried.returncode, tried.stdout) == (9, "try\ntry\n")
    gang = terminal.type("submit", "--follow", "--cpu", "100m", "--replicas", "2", "--name", "gang", "--", "echo", "hi")
    pods = [line.split(" | ") for line in sorted(gang.stdout.splitlines())]
    assert [line for _, line in pods] == ["hi", "hi"]
    assert [pod[-2:] for pod, _ in pods] == ["-0", "-1"]


def test_what_waits_is_explained_and_the_command_that_helps_can_be_typed(terminal: Terminal) -> None:
    holder = submitted(terminal, "--cpu", "100m", "--gpu", "3", "--", "sleep", "60")
    terminal.ok("wait", "--for", "running", holder)
    waiting = submitted(terminal, "--cpu", "100m", "--gpu", "4", "--name", "waiting", "--", "echo", "hi")
    late = terminal.type("wait", waiting, "--timeout", "1s")
    assert (late.returncode, late.stderr.splitlines()[-1]) == (1, f"Next: stoker explain {waiting}")
    shown = terminal.ok("explain", "waiting")
    assert holder in shown
    command = next(line.split() for line in shown.splitlines() if "stoker patch" in line)
    assert f"Changed {waiting}." in terminal.ok(*command[1:])
    assert terminal.ok("wait", waiting).startswith(f"{waiting}: Succeeded")
    terminal.ok("stop", holder)


def test_stop_suspend_resume_clone_and_delete_tell_of_each(terminal: Terminal) -> None:
    one = submitted(terminal, "--cpu", "100m", "--name", "one", "--", "sleep", "60")
    two = submitted(terminal, "--cpu", "100m", "--name", "two", "--", "sleep", "60")
    terminal.ok("wait", "--for", "running", one, two)
    assert terminal.ok("stop", one, "two") == f"Asked {one} to stop.\nAsked {two} to stop.\n"
    assert terminal.type("wait", one, two).returncode == 1
    assert terminal.ok("resume", "one") == f"Resumed {one}.\n"
    assert terminal.ok("wait", "--for", "running", one) == f"{one}: Running\n"
    assert terminal.ok("suspend", "one") == f"Asked {one} to stop until it is resumed.\n"
    assert terminal.ok("resume", two) == f"Resumed {two}.\n"
    cloned = terminal.type("clone", one, "no-such-one", "--json")
    assert cloned.returncode == 3
    [copy] = msgspec.json.decode(cloned.stdout)["clones"]
    assert terminal.ok("delete", one, two, copy, "--yes").count("Deleted ") == 3
    assert terminal.type("describe", one).returncode == 3


def test_events_of_a_workload_begin_with_its_first(terminal: Terminal) -> None:
    workload_id = submitted(terminal, "--cpu", "100m", "--", "true")
    terminal.ok("wait", workload_id)
    lines = terminal.ok("events", "--workload", workload_id, "--limit", "4", "--json").splitlines()
    phases = [msgspec.json.decode(line)["phase"] for line in lines]
    assert (phases[0], phases[-1]) == ("Pending", "Completed")


def test_a_watched_list_tells_of_each_change(terminal: Terminal) -> None:
    words = [*STOKER, "list", "watched", "--watch", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=terminal.environment) as process:
        assert process.stdout is not None
        terminal.ok("run", "--name", "watched", "-q", "true")
        phases = [msgspec.json.decode(process.stdout.readline())["phase"]]
        while phases[-1] != "Succeeded":
            phases.append(msgspec.json.decode(process.stdout.readline())["phase"])
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    assert (process.returncode, said.strip()) == (130, b"")


def test_the_schema_has_the_fields_of_a_file(terminal: Terminal) -> None:
    assert "displayName" in terminal.ok("schema")


def test_a_coroutine_sees_the_same_job(serving: Serving, terminal: Terminal) -> None:
    workload_id = submitted(terminal, "--cpu", "100m", "--script", "echo a; sleep 0.5; echo b")
    terminal.ok("wait", workload_id)

    async def texts() -> list[str]:
        key = (serving.data_dir / "admin.key").read_text().strip()
        async with AsyncStoker(serving.address, key) as stoker:
            detail = await stoker.workloads.get(workload_id)
            return [line.text async for line in stoker.workloads.follow_logs(workload_id, detail.pods[0].pod_id)]

    assert asyncio.run(texts()) == ["a", "b"]


@pytest.mark.slow
def test_a_run_goes_on_while_the_server_is_started_anew(tmp_path: Path) -> None:
    first = Serving(tmp_path, tmp_path / "data")
    words = [*STOKER, "run", "-q", "for i in $(seq 1 25); do echo $i; sleep 0.2; done; exit 6"]
    environment = first.terminal.environment
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=ENTERABLE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        first.stop()
        second = Serving(tmp_path, tmp_path / "data", "--port", first.address.rpartition(":")[2])
        try:
            printed, said = process.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            second.stop()
    assert (process.returncode, said) == (6, b"")
    assert printed.split() == [b"%d" % number for number in range(2, 26)]


def test_a_job_begins_where_it_is_typed_or_is_refused_with_the_reason(terminal: Terminal, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="stoker-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        assert terminal.type("run", "pwd", cwd=name).stdout == f"{name}\n"
        submitted = terminal.type("submit", "--follow", "pwd", cwd=name)
        assert (submitted.returncode, submitted.stdout) == (0, f"{name}\n"), submitted.stderr
    before = terminal.ok("list", "--json")
    for verb in ("run", "submit"):
        refused = terminal.type(verb, "--here", "pwd", cwd=str(tmp_path))
        assert refused.returncode == 1
        assert f"A job cannot begin in {tmp_path}." in refused.stderr
        assert "--not-here" in refused.stderr
    assert terminal.ok("list", "--json") == before
    elsewhere = terminal.type("run", "--", "python3", "-c", 'print("hi")', cwd=str(tmp_path))
    assert (elsewhere.returncode, elsewhere.stdout) == (0, "hi\n"), elsewhere.stderr
    assert f"not in {tmp_path}. Jobs do not see it" in elsewhere.stderr
