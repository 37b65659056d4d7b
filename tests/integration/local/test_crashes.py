"""Whichever process dies, nothing runs twice, nothing is orphaned, and running pods are adopted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.integration.local.harness import Harness, new_order, processes, shim_pid

from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import LaunchSpec

HOST = """
import asyncio, sys
from pathlib import Path
import msgspec
from stoker.engines.model import LaunchSpec
from stoker.engines.local import ContainmentMode, LocalEngine

async def main(data_dir, mode, order):
    engine = await LocalEngine.open(Path(data_dir), mode=ContainmentMode(mode))
    await engine.apply(msgspec.json.decode(order, type=LaunchSpec))
    print("applied", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


class EngineProcess:
    """Another process with an engine, as a server is."""

    def __init__(self, harness: Harness, order: LaunchSpec, failpoint: str = "") -> None:
        command = [sys.executable, "-c", HOST, str(harness.data_dir), harness.mode, msgspec.json.encode(order).decode()]
        env = os.environ | ({"STOKER_FAILPOINT": failpoint} if failpoint else {})
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)

    def applied(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"applied\n"

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        with self.process:
            return self.process.wait(15)


def test_an_end_while_no_server_ran_is_known_afterwards(harness: Harness) -> None:
    order = new_order("exit 4")
    host = EngineProcess(harness, order)
    host.applied()
    host.kill()
    exit_record = harness.data_dir / "local" / "pods" / order.pods[0].uid / "exit"
    wait_for(exit_record.exists)
    assert harness.end(order.pods[0].uid).exit_code == 4


def test_a_killed_shim_takes_its_tree_along_and_the_pod_is_lost(harness: Harness) -> None:
    uid = harness.job("setsid sleep 600 & (setsid sleep 600 &); echo up; sleep 600")
    harness.says(uid, "up")
    os.kill(shim_pid(harness, uid), signal.SIGKILL)
    pod = harness.end(uid)
    assert list(processes(uid)) == []
    assert (pod.phase, pod.exit_code, pod.ready) == (PodPhase.LOST, None, False)
    assert "shim" in pod.message


def test_a_shim_that_died_while_no_server_ran_is_found_to_be_lost(harness: Harness) -> None:
    uid = harness.job("setsid sleep 600 & echo up; sleep 600")
    harness.says(uid, "up")
    process = shim_pid(harness, uid)
    harness.close()
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: " Z " in stat(process))
    harness.open()
    assert harness.end(uid).phase is PodPhase.LOST
    assert list(processes(uid)) == []


def test_a_lost_pod_is_not_started_again_by_another_apply(harness: Harness) -> None:
    order = harness.start("echo run >> runs; echo up; sleep 600")
    uid = order.pods[0].uid
    harness.says(uid, "up")
    os.kill(shim_pid(harness, uid), signal.SIGKILL)
    harness.end(uid)
    harness.run(harness.engine.apply(order))
    harness.open()
    harness.run(harness.engine.apply(order))
    assert harness.until(uid, lambda pod: True).phase is PodPhase.LOST
    assert runs(harness, order) == 1


def test_what_a_shim_that_died_early_left_behind_is_no_obstacle(harness: Harness) -> None:
    order = new_order("echo run >> runs")
    assert EngineProcess(harness, order, failpoint="engine.pod-made").wait() == -signal.SIGKILL
    folder = harness.data_dir / "local" / "pods" / order.pods[0].uid
    for name in ("control", "lock", "started.new", "exit.new"):
        (folder / name).write_text("1234567")
    harness.open()
    harness.run(harness.engine.apply(order))
    assert harness.end(order.pods[0].uid).exit_code == 0
    assert runs(harness, order) == 1


def test_a_pod_that_never_began_can_be_stopped_and_never_begins(harness: Harness) -> None:
    order = new_order("echo run >> runs")
    assert EngineProcess(harness, order, failpoint="engine.pod-made").wait() == -signal.SIGKILL
    uid = order.pods[0].uid
    assert harness.until(uid, lambda pod: True).phase is PodPhase.PENDING
    harness.stop(uid)
    assert harness.end(uid).message == "It was stopped before it began."
    harness.run(harness.engine.apply(order))
    assert runs(harness, order) == 0


def test_a_shim_that_hangs_is_killed_some_time_after_the_grace(
    any_harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.engines.local.shim_client.UNRESPONSIVE_SECONDS", 0.2)
    uid = any_harness.job("echo up; sleep 600")
    any_harness.says(uid, "up")
    os.kill(shim_pid(any_harness, uid), signal.SIGSTOP)
    any_harness.stop(uid, grace_seconds=0)
    assert any_harness.end(uid).phase is PodPhase.LOST
    assert list(processes(uid)) == []


def test_a_machine_that_refuses_to_start_a_pod_says_why(any_harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.engines.local.shim_launcher.SHIM_SCRIPT", "/no/such/shim.py")
    uid = any_harness.job("echo never")
    pod = any_harness.end(uid)
    assert pod.phase is PodPhase.FAILED
    assert "/no/such/shim.py" in pod.message


def wait_for(check: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 10
    while not check():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def stat(process: int) -> str:
    path = Path(f"/proc/{process}/stat")
    return path.read_text() if path.exists() else " Z "


def runs(harness: Harness, order: LaunchSpec) -> int:
    path = harness.data_dir / "local" / "work" / order.ref.slug / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0
