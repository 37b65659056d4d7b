"""The machine as a node, and the rest of what an engine keeps for workloads."""

import contextlib
import os
import time

import pytest
from tests.integration.local.harness import Harness, processes

from stoker.domain.errors import StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind
from stoker.engines.model import FullSync, Observation, WorkloadRef

CROWD = 200


def first(harness: Harness) -> Observation:
    async def main() -> Observation:
        async with contextlib.aclosing(harness.engine.watch()) as reports:
            return await anext(reports)

    return harness.run(main())


def test_pretend_devices_are_shown_as_such(any_harness: Harness) -> None:
    any_harness.open(gpus=4, node_name="bench")
    report = first(any_harness)
    assert isinstance(report, FullSync)
    [node] = report.nodes
    assert node.name == "bench"
    assert [(device.index, device.pretend) for device in node.devices] == [(n, True) for n in range(4)]
    assert node.cpu_milli == len(os.sched_getaffinity(0)) * 1000


def test_python_is_found_by_a_job(any_harness: Harness) -> None:
    uid = any_harness.job("python -c 'print(\"hi\")'")
    assert any_harness.end(uid).exit_code == 0
    assert any_harness.lines(uid) == ["hi"]


def test_a_script_longer_than_a_command_line_can_be_runs(harness: Harness) -> None:
    uid = harness.job("true\n" * 60_000 + "echo $0 | head -c 4; exit 5")
    assert harness.end(uid).exit_code == 5


def test_an_order_that_cannot_be_run_is_refused(any_harness: Harness) -> None:
    with pytest.raises(StokerError, match="entryPoint"):
        any_harness.job("")
    with pytest.raises(StokerError, match="NUL"):
        any_harness.job("echo \0")
    with pytest.raises(StokerError, match="env"):
        any_harness.job("true", env={"A=B": "1"})


def test_the_working_directory_is_shared_by_a_workloads_pods_and_kept_until_it_is_discarded(
    any_harness: Harness,
) -> None:
    order = any_harness.start("mkdir -p deep/er; touch deep/er/$RANDOM; chmod 000 deep/er", replicas=2)
    for pod in order.pods:
        any_harness.end(pod.uid)
    any_harness.run(any_harness.engine.release(order.ref))
    work = any_harness.data_dir / "local" / "work" / order.ref.slug
    assert work.exists()
    any_harness.run(any_harness.engine.purge(order.ref))
    assert not work.exists()
    any_harness.run(any_harness.engine.purge(order.ref))
    with pytest.raises(StokerError):
        any_harness.run(any_harness.engine.purge(WorkloadRef(uid="x", slug="../../data")))


def test_an_authoring_pod_waits_idle_and_stops_at_once(any_harness: Harness) -> None:
    uid = any_harness.job("", kind=Kind.AUTHORING)
    any_harness.until(uid, lambda pod: pod.ready)
    began = time.monotonic()
    any_harness.stop(uid, grace_seconds=30)
    any_harness.end(uid)
    assert time.monotonic() - began < 20  # of a grace of 30


@pytest.mark.slow
def test_two_hundred_pods_at_once(any_harness: Harness) -> None:
    order = any_harness.start("echo $RANK; sleep 600", replicas=CROWD)
    uids = [pod.uid for pod in order.pods]
    for uid in uids:
        assert any_harness.until(uid, lambda pod: pod.ready).phase is PodPhase.RUNNING
    assert len(list(processes(*uids))) >= 2 * CROWD
    any_harness.open()
    for uid in uids:
        any_harness.until(uid, lambda pod: pod.ready)
    any_harness.stop(uids[0], grace_seconds=5)
    for uid in uids:
        assert any_harness.end(uid).signal == 15
