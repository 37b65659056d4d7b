"""Limits of memory, CPU and processes, by whatever this machine has."""

import time
from pathlib import Path

import pytest
from tests.integration.local.harness import Harness, new_order

from stoker.domain.cluster.capabilities import EXECVE_LIMITS
from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Spec
from stoker.engines.local.isolation import cgroups
from stoker.engines.local.isolation.cgroups import CgroupControllers, PodCgroups
from stoker.services.workloads.validation import ENV_ENTRY_OVERHEAD_BYTES, check_env

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
def test_a_memory_hog_is_killed_by_its_control_group_and_that_is_said(harness: Harness) -> None:
    uid = harness.job(HOG, resources=SMALL)
    pod = harness.end(uid)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 137)
    assert pod.message == "It needed more memory than the 100 MiB it asked for. Ask for more."
    assert "took it all" not in "\n".join(harness.lines(uid))


@pytest.mark.skipif(GROUPS.memory is None, reason="no memory control group can be written here")
def test_the_limit_holds_for_all_processes_together(any_harness: Harness) -> None:
    piece = "python -c \"x = bytearray(60 * 2**20); import time; time.sleep(1); print('kept')\""
    uid = any_harness.job(f"{piece} & {piece} & {piece} & wait", resources=SMALL)
    any_harness.end(uid)
    assert any_harness.lines(uid).count("kept") < 3


def test_without_a_control_group_each_process_is_limited(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker.engines.local.isolation.cgroups.detect", CgroupControllers)
    uid = harness.job(HOG, resources=SMALL)
    pod = harness.end(uid)
    assert (pod.phase, pod.exit_code) == (PodPhase.FAILED, 1)
    assert any("MemoryError" in line for line in harness.lines(uid))


@pytest.mark.skipif(GROUPS.cpu is None, reason="no CPU control group can be written here")
def test_a_busy_command_gets_no_more_than_its_share_of_a_processor(any_harness: Harness) -> None:
    burn = 'python -c "import time; t = time.time()\nwhile time.time() < t + 1: pass\nprint(time.process_time())"'
    uid = any_harness.job(burn, resources=Resources(cpu_milli=250))
    began = time.monotonic()
    any_harness.end(uid)
    assert float(any_harness.lines(uid)[-1]) < 0.45 * (time.monotonic() - began + 0.1)


@pytest.fixture
def cpu_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in the place of the control group's."""
    file = tmp_path / "cpu.max"
    file.write_text(LIMIT)
    monkeypatch.setattr(CgroupControllers, "create", lambda *_: PodCgroups(cpu_limit_file=str(file)))
    return file


def test_what_is_killed_is_not_held_back_while_it_dies(any_harness: Harness, cpu_limit: Path) -> None:
    uid = any_harness.job("trap '' TERM; sleep 60 & echo begun; wait")
    any_harness.says(uid, "begun")
    assert cpu_limit.read_text() == LIMIT
    any_harness.stop(uid, grace_seconds=0)
    any_harness.end(uid)
    assert cpu_limit.read_text().startswith("max")


def test_what_is_started_again_has_its_limit_again(any_harness: Harness, cpu_limit: Path) -> None:
    script = "[ -e again ] && echo back && exec sleep 60; touch again; sleep 60 & exit 1"
    uid = any_harness.job(script, restart=True)
    any_harness.says(uid, "back")
    assert cpu_limit.read_text() == LIMIT


def test_as_many_variables_as_are_accepted_can_be_had(harness: Harness) -> None:
    limits = EXECVE_LIMITS
    env = {f"V{n}": "x" * (limits.max_variable_bytes - 4) for n in range(10, 21)}
    left = limits.max_total_bytes - sum(
        len(name) + 1 + len(value) + ENV_ENTRY_OVERHEAD_BYTES for name, value in env.items()
    )
    env["LAST"] = "x" * (left - len("LAST=") - ENV_ENTRY_OVERHEAD_BYTES)
    check_env(Spec(env=env), limits)
    script = "# " + "x" * 119_000 + "\necho ${#V10} ${#LAST}"
    uid = harness.job(script, env=env)
    assert harness.end(uid).exit_code == 0
    assert harness.lines(uid) == [f"{limits.max_variable_bytes - 4} {len(env['LAST'])}"]


@pytest.mark.skipif(GROUPS.pids is None, reason="no pids control group can be written here")
def test_a_pod_has_only_so_many_processes(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "MIN_PIDS_LIMIT", 20)
    uid = harness.job(FORK)
    assert harness.end(uid).phase is PodPhase.SUCCEEDED
    assert 10 < int(harness.lines(uid)[-1]) < 20
    harness.run(harness.engine.apply(order := new_order("echo fine")))
    assert harness.end(order.pods[0].uid).phase is PodPhase.SUCCEEDED


def test_a_limit_that_is_enough_is_not_felt(harness: Harness) -> None:
    uid = harness.job(HOG, resources=Resources(cpu_milli=2000, memory_bytes=2**30))
    assert harness.end(uid).phase is PodPhase.SUCCEEDED
