"""Pods are containers: they start once, end as they end, and are stopped with all their processes."""

import asyncio
import uuid
from unittest import mock

import pytest
from msgspec import structs
from tests.engines.docker.daemon import SHELL_LESS_IMAGE
from tests.engines.docker.harness import DockerHarness, new_spec

from stoker.domain.cluster.resources import Resources
from stoker.domain.errors import ErrorCode, StokerError
from stoker.domain.workload.phase import PodPhase
from stoker.domain.workload.spec import Kind
from stoker.engines.docker.container_config import MOUNTS_ANNOTATION
from stoker.engines.model import FullSync, LaunchSpec, PodAssignment


def test_a_pod_runs_and_succeeds(harness: DockerHarness) -> None:
    spec = harness.launch("echo hello; sleep 0.3", resources=Resources(0, 500, 64 * 2**20))
    pod = spec.pods[0]
    running = harness.running(pod.uid)
    assert (running.name, running.workload_uid, running.rank, running.ready) == (pod.name, spec.ref.uid, 0, True)
    ended = harness.end(pod.uid)
    assert (ended.phase, ended.exit_code, ended.message) == (PodPhase.SUCCEEDED, 0, "")
    assert ended.created_at
    assert ended.started_at
    assert ended.ended_at
    assert ended.created_at <= ended.started_at <= ended.ended_at
    assert ended.resources == Resources(0, 500, 64 * 2**20)
    assert isinstance(harness.reports[0], FullSync)


def test_to_apply_twice_starts_nothing_twice(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 600")
    harness.running(spec.pods[0].uid)
    harness.run(harness.engine.apply(spec))

    async def at_once() -> None:
        await asyncio.gather(*(harness.engine.apply(spec) for _ in range(5)))

    harness.run(at_once())
    assert len(harness.containers()) == 1


def test_two_engines_that_apply_at_once_start_nothing_twice(harness: DockerHarness) -> None:
    """As after a lost lease: the name of the container prevents it."""
    other = DockerHarness(harness.daemon, harness.state_dir)
    other.installation = harness.installation
    spec = new_spec("sleep 600", replicas=2)
    _ = other.engine, harness.engine
    harness.run(harness.engine.apply(spec))
    other.run(other.engine.apply(spec))
    assert len(harness.containers()) == 2
    other.dispose()


def test_an_ended_pod_does_not_run_again(harness: DockerHarness) -> None:
    spec = harness.launch("exit 3")
    harness.end(spec.pods[0].uid)
    harness.run(harness.engine.apply(spec))
    assert [container["State"] for container in harness.containers()] == ["exited"]


@pytest.mark.parametrize(
    ("script", "code", "signal", "message"),
    [
        ("exit 3", 3, None, "The command ended with exit code 3."),
        ("kill -9 $$", 137, 9, "The command was ended by signal 9 (SIGKILL)."),
        ("kill -TERM $$; sleep 5", 143, 15, "The command was ended by signal 15 (SIGTERM)."),
    ],
)
def test_the_end_of_a_pod_is_that_of_its_command(
    harness: DockerHarness, script: str, code: int, signal: int | None, message: str
) -> None:
    ended = harness.end(harness.pod(script))
    assert (ended.phase, ended.exit_code, ended.signal, ended.message) == (PodPhase.FAILED, code, signal, message)


def test_a_pod_that_needs_more_memory_than_it_asked_for_is_told_so(harness: DockerHarness) -> None:
    ended = harness.end(harness.pod("tail /dev/zero", resources=Resources(0, 0, 16 * 2**20)))
    assert ended.phase is PodPhase.FAILED
    assert ended.message == "It needed more memory than the 16 MiB it asked for. Ask for more."


def test_a_pod_stops_in_its_grace_period(harness: DockerHarness) -> None:
    spec = harness.launch("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    uid = spec.pods[0].uid
    harness.says(uid, "ready")
    harness.stop(spec)
    ended = harness.end(uid)
    assert ended.exit_code == 0
    assert harness.lines(uid)[-1] == "bye"


def test_stubborn_children_are_killed_after_the_grace_period(harness: DockerHarness) -> None:
    spec = harness.launch("trap '' TERM; (trap '' TERM; sleep 600) & echo ready; sleep 600; wait")
    uid = spec.pods[0].uid
    harness.says(uid, "ready")
    harness.stop(spec, 1.0)
    ended = harness.end(uid)
    assert (ended.exit_code, ended.signal) == (137, 9)


def test_a_second_stop_without_grace_ends_it_at_once(harness: DockerHarness) -> None:
    spec = harness.launch("trap '' TERM; echo ready; while :; do sleep 0.1; done")
    uid = spec.pods[0].uid
    harness.says(uid, "ready")
    harness.stop(spec, 600.0)
    harness.stop(spec, 0.0)
    assert harness.end(uid, 5.0).signal == 9


def test_force_drops_the_pod(harness: DockerHarness) -> None:
    spec = harness.launch("trap '' TERM; sleep 600")
    harness.running(spec.pods[0].uid)
    harness.stop(spec, 600.0, force=True)
    harness.wait(lambda: spec.pods[0].uid not in harness.seen)
    assert harness.containers() == []


def test_one_pod_of_several_is_stopped_alone(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 600", replicas=2)
    first, second = (pod.uid for pod in spec.pods)
    harness.running(first)
    harness.running(second)
    harness.stop(spec, 0.0, only={first})
    harness.end(first)
    assert harness.seen[second].phase is PodPhase.RUNNING


def test_release_removes_ended_containers_and_purge_the_volume(harness: DockerHarness) -> None:
    spec = harness.launch("echo data > $STOKER_WORKING_DIR/file")
    harness.end(spec.pods[0].uid)
    assert harness.volumes() != []
    harness.run(harness.engine.release(spec.ref))
    assert harness.containers() == []
    harness.wait(lambda: spec.pods[0].uid not in harness.seen)
    assert harness.run(harness.engine.pods_of(spec.ref)) == frozenset()
    again = structs.replace(spec, ref=structs.replace(spec.ref, attempt=2), pods=_renewed(spec))
    again = structs.replace(again, containers=(structs.replace(spec.main, entry_point="cat $STOKER_WORKING_DIR/file"),))
    harness.run(harness.engine.apply(again))
    harness.end(again.pods[0].uid)
    assert harness.lines(again.pods[0].uid) == ["data"]
    harness.run(harness.engine.purge(spec.ref))
    assert harness.volumes() != [], "it is in use"
    harness.run(harness.engine.release(again.ref))
    assert harness.volumes() == []


def test_a_created_container_that_never_started_is_started_by_the_next_apply(harness: DockerHarness) -> None:
    spec = _created_only(harness)
    assert harness.run(harness.engine.pods_of(spec.ref)) == {spec.pods[0].uid}
    harness.run(harness.engine.apply(spec))
    assert harness.end(spec.pods[0].uid).exit_code == 0
    assert len(harness.containers()) == 1


def test_a_created_container_that_is_stopped_never_starts(harness: DockerHarness) -> None:
    spec = _created_only(harness)
    harness.stop(spec)
    assert harness.run(harness.engine.pods_of(spec.ref)) == frozenset()
    assert harness.containers() == []


def test_an_image_without_a_shell_runs_its_own_command_and_rejects_an_entry_point(harness: DockerHarness) -> None:
    assert harness.end(harness.pod("", image=SHELL_LESS_IMAGE)).exit_code == 0
    with pytest.raises(StokerError, match="has no /bin/sh") as caught:
        harness.launch("echo hi", image=SHELL_LESS_IMAGE)
    assert caught.value.code is ErrorCode.BAD_REQUEST


def test_an_image_that_is_not_there_is_named(harness: DockerHarness) -> None:
    with pytest.raises(StokerError, match="does not have the image nothing:9") as caught:
        harness.launch("echo hi", image="nothing:9")
    assert caught.value.code is ErrorCode.UNSCHEDULABLE
    assert harness.containers() == []


def test_an_authoring_pod_idles_until_it_is_stopped(harness: DockerHarness) -> None:
    spec = harness.launch("", kind=Kind.AUTHORING)
    harness.running(spec.pods[0].uid)
    harness.stop(spec)
    assert harness.end(spec.pods[0].uid, 5.0).exit_code == 0


def test_limits_reach_the_container(harness: DockerHarness) -> None:
    uid = harness.pod("df -k /dev/shm | tail -1; sleep 600", resources=Resources(0, 250, 64 * 2**20))
    harness.says(uid, "shm")
    container = harness.run(harness.engine.client.inspect(harness.seen[uid].engine_uid))
    assert container is not None
    assert (container.host_config.nano_cpus, container.host_config.memory) == (250_000_000, 64 * 2**20)
    assert str(2**20) in harness.lines(uid)[0].split()


def test_gpus_are_requested_from_docker(harness: DockerHarness) -> None:
    uid = harness.pod("env | grep VISIBLE; sleep 600", devices=((1, 3),))
    harness.says(uid, "VISIBLE")
    pod = harness.seen[uid]
    container = harness.run(harness.engine.client.inspect(pod.engine_uid))
    assert container is not None
    (request,) = container.host_config.device_requests or []
    assert request.device_ids == ["1", "3"]
    assert [device.index for device in pod.devices or ()] == [1, 3]
    assert "CUDA_VISIBLE_DEVICES=0,1" in harness.lines(uid)


def test_allowed_directories_are_mounted(harness: DockerHarness) -> None:
    shared = harness.daemon.folder / "shared"
    shared.mkdir(exist_ok=True)
    (shared / "input").write_text("from the host\n")
    harness.open(allowed_mounts=(str(shared),))
    uid = harness.pod(
        "cat /in/input; touch /in/x 2>/dev/null || echo read-only", annotations={MOUNTS_ANNOTATION: f"{shared}:/in:ro"}
    )
    harness.end(uid)
    assert harness.lines(uid)[0] == "from the host"
    assert harness.lines(uid)[-1] == "read-only"
    with pytest.raises(StokerError, match="cannot be mounted"):
        harness.launch("true", annotations={MOUNTS_ANNOTATION: "/etc"})
    assert harness.run(harness.engine.check_working_directory("/etc", 1)) != ""
    assert harness.run(harness.engine.check_working_directory(str(shared), 1)) == ""


def test_a_pod_that_restarts_counts_and_is_not_ready_while_it_waits(harness: DockerHarness) -> None:
    spec = harness.launch("sleep 0.1; exit 3", kind=Kind.DEPLOYMENT, restart=True, rolling=True)
    uid = spec.pods[0].uid
    waiting = harness.until(uid, lambda pod: pod.restarts >= 3 and not pod.ready and "exit code 3" in pod.message)
    assert waiting.phase is PodPhase.RUNNING
    assert waiting.message == "The command ended with exit code 3. It starts again soon."
    harness.stop(spec, 1.0)
    harness.end(uid)


def _created_only(harness: DockerHarness) -> LaunchSpec:
    """A container as it is left behind by a crash between its creation and its start."""
    spec = new_spec("echo hi")

    engine = harness.engine
    crash = mock.patch.object(engine.client, "start", side_effect=StokerError(ErrorCode.UNAVAILABLE, "crash"))
    with crash, pytest.raises(StokerError, match="crash"):
        harness.run(engine.apply(spec))
    harness.open()
    return spec


def _renewed(spec: LaunchSpec) -> tuple[PodAssignment, ...]:
    return tuple(structs.replace(pod, uid=str(uuid.uuid4())) for pod in spec.pods)
