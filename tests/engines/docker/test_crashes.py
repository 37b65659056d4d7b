"""A server that dies at any point of a start leaves nothing that runs twice, and nothing that is forgotten."""

import os
import signal
import subprocess
import sys

import msgspec
import pytest
from tests.engines.docker.harness import DockerHarness, new_spec

from stoker.concurrency.failpoints import FAILPOINT_VARIABLE
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import LaunchSpec

APPLY = """
import asyncio, sys
from pathlib import Path
import msgspec
from stoker.engines.docker import DockerConfig, DockerEngine, PullPolicy
from stoker.engines.model import LaunchSpec

async def main():
    url, installation, state_dir, spec = sys.argv[1:]
    config = DockerConfig(url=url, node_name="docker-host", gpus=4, pull_policy=PullPolicy.NEVER)
    engine = DockerEngine(config, installation=installation, cluster_id="tests", state_dir=Path(state_dir))
    await engine.apply(msgspec.json.decode(spec, type=LaunchSpec))
    await engine.close()

asyncio.run(main())
"""


def apply_elsewhere(harness: DockerHarness, spec: LaunchSpec, failpoint: str) -> int:
    """Apply in a process of its own, which dies there; its exit status."""
    arguments = [harness.daemon.url, harness.installation, str(harness.state_dir), msgspec.json.encode(spec).decode()]
    env = {**os.environ, FAILPOINT_VARIABLE: failpoint}
    return subprocess.run([sys.executable, "-c", APPLY, *arguments], check=False, env=env).returncode


@pytest.mark.parametrize("failpoint", ["docker.created", "docker.started"])
def test_a_start_that_was_cut_off_is_completed_once(harness: DockerHarness, failpoint: str) -> None:
    spec = new_spec("echo once >> $STOKER_WORKING_DIR/runs; cat $STOKER_WORKING_DIR/runs; sleep 600")
    assert apply_elsewhere(harness, spec, failpoint) == -signal.SIGKILL
    assert len(harness.containers()) == 1
    harness.run(harness.engine.apply(spec))
    uid = spec.pods[0].uid
    assert harness.running(uid).phase is PodPhase.RUNNING
    assert harness.says(uid, "once") == ["once"]
    assert len(harness.containers()) == 1


@pytest.mark.parametrize("failpoint", ["docker.created", "docker.started"])
def test_a_gang_whose_start_was_cut_off_is_completed(harness: DockerHarness, failpoint: str) -> None:
    spec = new_spec("echo $MASTER_ADDR; sleep 600", replicas=3)
    assert apply_elsewhere(harness, spec, failpoint) == -signal.SIGKILL
    harness.run(harness.engine.apply(spec))
    for pod in spec.pods:
        harness.running(pod.uid)
    assert len(harness.containers()) == 3
    addresses = {harness.says(pod.uid, "")[0] for pod in spec.pods[1:] if harness.says(pod.uid, ".")}
    assert len(addresses) == 1, "all ranks know the same master"


@pytest.mark.parametrize("failpoint", ["docker.created", "docker.started"])
def test_what_was_cut_off_can_be_ended_without_a_start(harness: DockerHarness, failpoint: str) -> None:
    spec = new_spec("sleep 600")
    assert apply_elsewhere(harness, spec, failpoint) == -signal.SIGKILL
    uid = spec.pods[0].uid
    harness.wait(lambda: uid in harness.seen)
    harness.stop(spec, 0.0)
    harness.wait(lambda: uid not in harness.seen or harness.seen[uid].phase.is_finished)
    harness.run(harness.engine.release(spec.ref))
    harness.run(harness.engine.purge(spec.ref))
    assert harness.containers() == []
    assert harness.volumes() == []


def test_a_server_that_dies_while_it_stops_a_pod_leaves_the_stop_to_the_next(
    harness: DockerHarness,
) -> None:
    spec = harness.launch("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    uid = spec.pods[0].uid
    harness.says(uid, "ready")
    harness.stop(spec, 600.0)
    harness.kill_engine()
    assert harness.running(uid).phase is PodPhase.RUNNING
    harness.stop(spec, 0.5)
    assert harness.end(uid).signal == signal.SIGKILL
