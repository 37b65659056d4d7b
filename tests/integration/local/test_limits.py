"""Limits of memory, CPU and processes, by whatever this machine has."""

import time
from pathlib import Path

import pytest
from tests.engine.local.lab import Lab, new_order

from stoker.domain.resources import Resources
from stoker.domain.workload import PodPhase, Spec
from stoker.engines.local import cgroups
from stoker.engines.local.cgroups import ControlGroups, Joined
from stoker.services.submission import START_LIMITS, VARIABLE_BYTES, check_start

GROUPS = cgroups.detect()
HOG = "python -c \"x = bytearray(400 * 2**20); print('took it all', len(x))\""
FORK = """exec python -c '
import os, time
for count in range(60):
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except BlockingIOError:
        break
print(count)
'"""
SMALL = Resources(memory_bytes=100 * 2**20)
LIMIT = "5000 100000"


@pytest.mark.skipif(GROUPS.memory is None, reason="no memory control group can be written here")
def test_a_memory_hog_is_killed_by_its_control_group_and_that_is_said(lab: Lab) -> None:
    uid = lab.job(HOG, resources=SMALL)
    pod = lab.end(uid)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 137)
    assert pod.message == "It needed more memory than the 100 MiB it asked for. Ask for more."
    assert "took it all" not in "\n".join(lab.lines(uid))


@pytest.mark.skipif(GROUPS.memory is None, reason="no memory control group can be written here")
def test_the_limit_holds_for_all_processes_together(any_lab: Lab) -> None:
    piece = "python -c \"x = bytearray(60 * 2**20); import time; time.sleep(1); print('kept')\""
    uid = any_lab.job(f"{piece} & {piece} & {piece} & wait", resources=SMALL)
    any_lab.end(uid)
    assert any_lab.lines(uid).count("kept") < 3


def test_without_a_control_group_each_process_is_limited(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.engines.local.cgroups.detect", ControlGroups)
    uid = lab.job(HOG, resources=SMALL)
    pod = lab.end(uid)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 1)
    assert any("MemoryError" in line for line in lab.lines(uid))


@pytest.mark.skipif(GROUPS.cpu is None, reason="no CPU control group can be written here")
def test_a_busy_command_gets_no_more_than_its_share_of_a_processor(any_lab: Lab) -> None:
    burn = 'python -c "import time; t = time.time()\nwhile time.time() < t + 1: pass\nprint(time.process_time())"'
    uid = any_lab.job(burn, resources=Resources(cpu_milli=250))
    began = time.monotonic()
    any_lab.end(uid)
    assert float(any_lab.lines(uid)[-1]) < 0.45 * (time.monotonic() - began + 0.1)


@pytest.fixture
def cpu_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of the control group's."""
    file = tmp_path / "cpu.max"
    file.write_text(LIMIT)
    monkeypatch.setattr(ControlGroups, "make", lambda *_: Joined(cpu_limit=str(file)))
    return file


def test_what_is_killed_is_not_held_back_while_it_dies(any_lab: Lab, cpu_limit: Path) -> None:
    uid = any_lab.job("trap '' TERM; sleep 60 & echo begun; wait")
    any_lab.says(uid, "begun")
    assert cpu_limit.read_text() == LIMIT
    any_lab.stop(uid, grace_seconds=0)
    any_lab.end(uid)
    assert cpu_limit.read_text().startswith("max")


def test_what_is_started_again_has_its_limit_again(any_lab: Lab, cpu_limit: Path) -> None:
    script = "[ -e again ] && echo back && exec sleep 60; touch again; sleep 60 & exit 1"
    uid = any_lab.job(script, restart=True)
    any_lab.says(uid, "back")
    assert cpu_limit.read_text() == LIMIT


def test_as_many_variables_as_are_accepted_can_be_had(lab: Lab) -> None:
    limits = START_LIMITS["local"]
    env = {f"V{n}": "x" * (limits.one - 4) for n in range(10, 21)}
    left = limits.all - sum(len(name) + 1 + len(value) + VARIABLE_BYTES for name, value in env.items())
    env["LAST"] = "x" * (left - len("LAST=") - VARIABLE_BYTES)
    check_start(Spec(env=env), "local")
    script = "# " + "x" * 119_000 + "\necho ${#V10} ${#LAST}"
    uid = lab.job(script, env=env)
    assert lab.end(uid).exit_code == 0
    assert lab.lines(uid) == [f"{limits.one - 4} {len(env['LAST'])}"]


@pytest.mark.skipif(GROUPS.pids is None, reason="no pids control group can be written here")
def test_a_pod_has_only_so_many_processes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "LEAST_PROCESSES", 20)
    uid = lab.job(FORK)
    assert lab.end(uid).phase is PodPhase.SUCCEEDED
    assert 10 < int(lab.lines(uid)[-1]) < 20
    lab.run(lab.engine.apply(order := new_order("echo fine")))
    assert lab.end(order.pods[0].uid).phase is PodPhase.SUCCEEDED


def test_a_limit_that_is_enough_is_not_felt(lab: Lab) -> None:
    uid = lab.job(HOG, resources=Resources(cpu_milli=2000, memory_bytes=2**30))
    assert lab.end(uid).phase is PodPhase.SUCCEEDED
