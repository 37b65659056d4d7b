"""Whoever dies: nothing runs twice, nothing is orphaned, and what was running is found again."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.engine.local.lab import Lab, keeper, new_order, processes

from stoker.domain.workload import PodPhase
from stoker.engines.base import Order
from stoker.engines.local import LocalEngine

HOST = """
import asyncio, sys
from pathlib import Path
import msgspec
from stoker.engines.base import Order
from stoker.engines.local import ContainmentMode, LocalEngine

async def main(data_dir, mode, order):
    engine = await LocalEngine.open(Path(data_dir), mode=ContainmentMode(mode))
    await engine.apply(msgspec.json.decode(order, type=Order))
    print("applied", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


class Host:
    """Another process with an engine, as a server is."""

    def __init__(self, lab: Lab, order: Order, failpoint: str = "") -> None:
        command = [sys.executable, "-c", HOST, str(lab.data_dir), lab.mode, msgspec.json.encode(order).decode()]
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


def test_pods_are_found_again_after_the_server_was_killed(lab: Lab) -> None:
    order = new_order("echo up; sleep 0.5; echo still here; exit 9")
    uid = order.pods[0].uid
    host = Host(lab, order)
    host.applied()
    host.kill()
    found = lab.until(uid, lambda pod: True)
    assert (found.phase, found.workload_uid, found.name) == (PodPhase.RUNNING, order.workload_uid, order.pods[0].name)
    assert lab.end(uid).exit_code == 9
    assert lab.lines(uid) == ["up", "still here"]


def test_an_end_while_no_server_ran_is_known_afterwards(lab: Lab) -> None:
    order = new_order("exit 4")
    host = Host(lab, order)
    host.applied()
    host.kill()
    exit_record = lab.data_dir / "local" / "pods" / order.pods[0].uid / "exit"
    wait_for(exit_record.exists)
    assert lab.end(order.pods[0].uid).exit_code == 4


def test_pods_that_were_found_again_can_be_stopped(lab: Lab) -> None:
    order = new_order("trap 'exit 6' TERM; echo up; sleep 600 & wait")
    host = Host(lab, order)
    host.applied()
    host.kill()
    lab.open()
    lab.says(order.pods[0].uid, "up")
    lab.stop(order.pods[0].uid)
    assert lab.end(order.pods[0].uid).exit_code == 6


def test_a_killed_keeper_takes_its_tree_along_and_the_pod_is_lost(lab: Lab) -> None:
    uid = lab.job("setsid sleep 600 & (setsid sleep 600 &); echo up; sleep 600")
    lab.says(uid, "up")
    os.kill(keeper(lab, uid), signal.SIGKILL)
    pod = lab.end(uid)
    assert list(processes(uid)) == []
    assert (pod.phase, pod.exit_code, pod.ready) == (PodPhase.LOST, None, False)
    assert "keeper" in pod.message


def test_a_keeper_that_died_while_no_server_ran_is_found_to_be_lost(lab: Lab) -> None:
    uid = lab.job("setsid sleep 600 & echo up; sleep 600")
    lab.says(uid, "up")
    process = keeper(lab, uid)
    lab.close()
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: " Z " in stat(process))
    lab.open()
    assert lab.end(uid).phase is PodPhase.LOST
    assert list(processes(uid)) == []


def test_a_lost_pod_is_not_started_again_by_another_apply(lab: Lab) -> None:
    order = lab.start("echo run >> runs; echo up; sleep 600")
    uid = order.pods[0].uid
    lab.says(uid, "up")
    os.kill(keeper(lab, uid), signal.SIGKILL)
    lab.end(uid)
    lab.run(lab.engine.apply(order))
    lab.open()
    lab.run(lab.engine.apply(order))
    assert lab.until(uid, lambda pod: True).phase is PodPhase.LOST
    assert runs(lab, order) == 1


def test_applying_again_changes_nothing(lab: Lab) -> None:
    order = lab.start("echo run >> runs; sleep 0.2")
    lab.run(lab.engine.apply(order))
    lab.end(order.pods[0].uid)
    lab.run(lab.engine.apply(order))
    lab.open()
    lab.run(lab.engine.apply(order))
    assert runs(lab, order) == 1


def test_two_engines_that_apply_at_once_run_it_once(lab: Lab) -> None:
    async def main() -> None:
        engines = [await LocalEngine.open(lab.data_dir, mode=lab.mode) for _ in range(2)]
        for order in orders:
            await asyncio.gather(*(engine.apply(order) for engine in engines))
        for engine in engines:
            await engine.close()

    orders = [new_order("echo run >> runs; sleep 0.2") for _ in range(10)]
    lab.run(main())
    lab.open()
    for order in orders:
        assert lab.end(order.pods[0].uid).exit_code == 0
        assert runs(lab, order) == 1


@pytest.mark.parametrize("place", ["engine.pod-made", "engine.shim-started", "engine.started-recorded"])
def test_a_crash_anywhere_in_a_start_ends_in_exactly_one_run(lab: Lab, place: str) -> None:
    order = new_order("echo run >> runs; echo up; sleep 0.3")
    assert Host(lab, order, failpoint=place).wait() == -signal.SIGKILL
    lab.open()
    lab.run(lab.engine.apply(order))
    assert lab.end(order.pods[0].uid).exit_code == 0
    assert runs(lab, order) == 1


def test_what_a_shim_that_died_early_left_behind_is_no_obstacle(lab: Lab) -> None:
    order = new_order("echo run >> runs")
    assert Host(lab, order, failpoint="engine.pod-made").wait() == -signal.SIGKILL
    folder = lab.data_dir / "local" / "pods" / order.pods[0].uid
    for name in ("control", "lock", "started.new", "exit.new"):
        (folder / name).write_text("1234567")
    lab.open()
    lab.run(lab.engine.apply(order))
    assert lab.end(order.pods[0].uid).exit_code == 0
    assert runs(lab, order) == 1


def test_a_pod_that_never_began_can_be_stopped_and_never_begins(lab: Lab) -> None:
    order = new_order("echo run >> runs")
    assert Host(lab, order, failpoint="engine.pod-made").wait() == -signal.SIGKILL
    uid = order.pods[0].uid
    assert lab.until(uid, lambda pod: True).phase is PodPhase.PENDING
    lab.stop(uid)
    assert lab.end(uid).message == "It was stopped before it began."
    lab.run(lab.engine.apply(order))
    assert runs(lab, order) == 0


def test_a_keeper_that_hangs_is_killed_some_time_after_the_grace(any_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.engines.local.link.HANG_SECONDS", 0.2)
    uid = any_lab.job("echo up; sleep 600")
    any_lab.says(uid, "up")
    os.kill(keeper(any_lab, uid), signal.SIGSTOP)
    any_lab.stop(uid, grace_seconds=0)
    assert any_lab.end(uid).phase is PodPhase.LOST
    assert list(processes(uid)) == []


def test_a_machine_that_refuses_to_start_a_pod_says_why(any_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.engines.local.launch.SHIM", "/no/such/shim.py")
    uid = any_lab.job("echo never")
    pod = any_lab.end(uid)
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


def runs(lab: Lab, order: Order) -> int:
    path = lab.data_dir / "local" / "work" / order.slug / "runs"
    return len(path.read_text().splitlines()) if path.exists() else 0
