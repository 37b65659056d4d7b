"""The machine as a node, and the rest of what an engine keeps for workloads."""

import contextlib
import os
import time

import pytest
from tests.engine.local.lab import Lab, processes

from stoker.domain.errors import StokerError
from stoker.domain.workload import Kind, PodPhase
from stoker.engines.base import Everything, Observation

CROWD = 200


def first(lab: Lab) -> Observation:
    async def main() -> Observation:
        async with contextlib.aclosing(lab.engine.observe()) as reports:
            return await anext(reports)

    return lab.run(main())


def test_pretend_devices_are_shown_as_such(any_lab: Lab) -> None:
    any_lab.open(gpus=4, node_name="bench")
    report = first(any_lab)
    assert isinstance(report, Everything)
    [node] = report.nodes
    assert node.name == "bench"
    assert [(device.index, device.pretend) for device in node.devices] == [(n, True) for n in range(4)]
    assert node.cpu_milli == len(os.sched_getaffinity(0)) * 1000


def test_each_pod_gets_the_devices_of_its_order(any_lab: Lab) -> None:
    any_lab.open(gpus=4)
    env = {"CUDA_VISIBLE_DEVICES": "2,3"}
    uid = any_lab.job("echo $CUDA_VISIBLE_DEVICES", env=env, devices=((2, 3),))
    any_lab.end(uid)
    assert any_lab.lines(uid) == ["2,3"]


def test_python_is_found_by_a_job(any_lab: Lab) -> None:
    uid = any_lab.job("python -c 'print(\"hi\")'")
    assert any_lab.end(uid).exit_code == 0
    assert any_lab.lines(uid) == ["hi"]


def test_a_script_longer_than_a_command_line_can_be_runs(lab: Lab) -> None:
    uid = lab.job("true\n" * 60_000 + "echo $0 | head -c 4; exit 5")
    assert lab.end(uid).exit_code == 5


def test_a_script_and_variables_arrive_as_they_are(lab: Lab) -> None:
    text = 'ü "quoted" $HOME `x`\nsecond line'
    uid = lab.job("printf '%s|' \"$WORDS\" 'a\"b' 'ü'", env={"WORDS": text})
    lab.end(uid)
    assert "\n".join(lab.lines(uid)) == f'{text}|a"b|ü|'


def test_an_order_that_cannot_be_run_is_refused(any_lab: Lab) -> None:
    with pytest.raises(StokerError, match="entryPoint"):
        any_lab.job("")
    with pytest.raises(StokerError, match="NUL"):
        any_lab.job("echo \0")
    with pytest.raises(StokerError, match="env"):
        any_lab.job("true", env={"A=B": "1"})


def test_the_working_directory_is_shared_by_a_workloads_pods_and_kept_until_it_is_discarded(any_lab: Lab) -> None:
    order = any_lab.start("mkdir -p deep/er; touch deep/er/$RANDOM; chmod 000 deep/er", replicas=2)
    for pod in order.pods:
        any_lab.end(pod.uid)
    any_lab.run(any_lab.engine.forget(order.workload_uid, 1))
    work = any_lab.data_dir / "local" / "work" / order.slug
    assert work.exists()
    any_lab.run(any_lab.engine.discard(order.slug))
    assert not work.exists()
    any_lab.run(any_lab.engine.discard(order.slug))
    with pytest.raises(StokerError):
        any_lab.run(any_lab.engine.discard("../../data"))


def test_an_authoring_pod_waits_idle_and_stops_at_once(any_lab: Lab) -> None:
    uid = any_lab.job("", kind=Kind.AUTHORING)
    any_lab.until(uid, lambda pod: pod.ready)
    began = time.monotonic()
    any_lab.stop(uid, grace_seconds=30)
    any_lab.end(uid)
    assert time.monotonic() - began < 1.0


@pytest.mark.slow
def test_two_hundred_pods_at_once(any_lab: Lab) -> None:
    order = any_lab.start("echo $RANK; sleep 600", replicas=CROWD)
    uids = [pod.uid for pod in order.pods]
    for uid in uids:
        assert any_lab.until(uid, lambda pod: pod.ready).phase is PodPhase.RUNNING
    assert len(list(processes(*uids))) >= 2 * CROWD
    any_lab.open()
    for uid in uids:
        any_lab.until(uid, lambda pod: pod.ready)
    any_lab.stop(uids[0], grace_seconds=5)
    for uid in uids:
        assert any_lab.end(uid).signal == 15
