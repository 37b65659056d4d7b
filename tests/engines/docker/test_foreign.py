"""What others run on the host is seen if it holds GPUs, and never changed."""

import time

from tests.engines.docker.daemon import IMAGE, DockerDaemon
from tests.engines.docker.harness import NODE, DockerHarness

from stoker.domain.cluster.resources import Resources
from stoker.domain.workload.phase import PodPhase
from stoker.engines.model import EnginePhase, WorkloadRef


def test_a_container_with_gpus_of_somebody_else_is_seen_within_two_seconds(
    harness: DockerHarness, docker_daemon: DockerDaemon
) -> None:
    harness.wait(lambda: bool(harness.reports), 20)
    arguments = ["--network", "none", "--gpus", '"device=1,2"', "--label", "team=vision", "--name", "notebook"]
    container = docker_daemon.docker("run", "-d", *arguments, IMAGE, "sleep", "600")
    try:
        started = time.monotonic()
        harness.wait(lambda: container in harness.foreign and harness.foreign[container].started_at is not None, 2.0)
        assert time.monotonic() - started < 2.0
        workload = harness.foreign[container]
        assert (workload.kind, workload.name, workload.phase) == ("Container", "notebook", EnginePhase.RUNNING)
        assert (workload.image, workload.labels["team"], workload.resources) == (IMAGE, "vision", Resources(2000, 0, 0))
        (pod,) = [pod for pod in harness.seen.values() if pod.owner_ref == container]
        assert (pod.workload_uid, pod.node, pod.phase) == ("", NODE, PodPhase.RUNNING)
        assert [device.index for device in pod.devices or ()] == [1, 2]

        harness.open()
        harness.wait(lambda: container in harness.foreign)
        assert harness.foreign[container] == workload, "a new engine derives the same"

        docker_daemon.docker("kill", container)
        harness.wait(lambda: harness.foreign[container].phase is EnginePhase.FAILED)
        assert harness.foreign[container].ended_at is not None
    finally:
        docker_daemon.docker("rm", "-f", container)
    harness.wait(lambda: container not in harness.foreign)
    assert pod.uid not in harness.seen


def test_an_admin_can_stop_a_foreign_container_which_is_kept(
    harness: DockerHarness, docker_daemon: DockerDaemon
) -> None:
    harness.wait(lambda: bool(harness.reports))
    container = docker_daemon.docker("run", "-d", "--network", "none", "--gpus", "all", IMAGE, "sleep", "600")
    try:
        harness.wait(lambda: container in harness.foreign)
        ref = WorkloadRef(uid=harness.foreign[container].uid, engine_ref=container)
        harness.run(harness.engine.release(ref))
        harness.run(harness.engine.terminate(ref, grace_seconds=1.0))
        harness.wait(lambda: harness.foreign[container].phase is EnginePhase.FAILED)
        assert docker_daemon.docker("inspect", "-f", "{{.State.Status}}", container) == "exited"
    finally:
        docker_daemon.docker("rm", "-f", container)


def test_containers_without_gpus_are_not_reported(harness: DockerHarness, docker_daemon: DockerDaemon) -> None:
    harness.wait(lambda: bool(harness.reports))
    container = docker_daemon.docker("run", "-d", "--network", "none", IMAGE, "sleep", "600")
    try:
        uid = harness.pod("true")
        harness.end(uid)
        assert container not in harness.foreign
        assert [pod for pod in harness.seen.values() if not pod.workload_uid] == []
    finally:
        docker_daemon.docker("rm", "-f", container)


def test_pods_of_another_installation_are_foreign_and_are_left_alone(harness: DockerHarness) -> None:
    other = DockerHarness(harness.daemon, harness.state_dir)
    spec = other.launch("sleep 600", devices=((3,),))
    uid = spec.pods[0].uid
    container = other.running(uid).engine_uid
    harness.wait(lambda: container in harness.foreign)
    assert uid not in harness.seen
    harness.stop(spec, 0.0)
    harness.run(harness.engine.release(spec.ref))
    harness.run(harness.engine.purge(spec.ref))
    assert harness.run(harness.engine.pods_of(spec.ref)) == frozenset()
    assert len(other.containers()) == 1
    assert other.volumes() != []
    assert other.seen[uid].phase is PodPhase.RUNNING
    other.finish()
